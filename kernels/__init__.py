"""Kernels, one folder an operation: interface, reference, implementations."""
