"""Engines: how completions are sampled."""
