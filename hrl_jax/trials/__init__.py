"""Comparisons of methods in the lab, where the truth is known."""
