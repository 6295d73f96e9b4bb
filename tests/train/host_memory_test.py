import ctypes
import pathlib
import platform

import pytest

from hrl_jax.train import host_memory


def _resident():
  pages = pathlib.Path("/proc/self/statm").read_text().split()[1]
  return 4096 * int(pages)


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="needs glibc")
def test_freed_memory_goes_back_to_the_system():
  libc = ctypes.CDLL(None)
  libc.malloc.restype = ctypes.c_void_p
  libc.free.argtypes = [ctypes.c_void_p]
  size, count = 64 * 1024, 1600  # Below the size that is mapped on its own.
  pieces = [libc.malloc(size) for _ in range(count)]
  for piece in pieces:
    ctypes.memset(piece, 1, size)
  for piece in pieces[:-1]:  # The last one keeps the top of the heap in place.
    libc.free(piece)
  before = _resident()
  host_memory.give_back()
  assert before - _resident() > 0.9 * size * count
  libc.free(pieces[-1])
