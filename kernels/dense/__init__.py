"""Features times weights, with a quick gradient on every platform."""

from kernels.dense.api import dense as dense

__all__ = ["dense"]
