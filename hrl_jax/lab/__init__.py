"""The lab: a small world in which the quality of an answer is known."""
