"""Held-out evaluation, its statistics and its report."""
