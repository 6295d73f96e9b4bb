"""Memory of the host that a compilation leaves behind."""

import ctypes
import sys


def give_back() -> None:
  """Returns freed memory to the system, where the C library is glibc.

  A compilation frees hundreds of MB in small pieces, which glibc keeps: for
  the update of a small model as much again as its arrays need.
  """
  if sys.platform != "linux":
    return
  trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
  if trim is not None:
    trim(0)
