"""Tasks with their rubrics: the bank, its file format and its sources."""
