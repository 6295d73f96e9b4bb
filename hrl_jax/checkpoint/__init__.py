"""Checkpoints of a run, and weights in the formats of other programs."""
