"""What a run writes down about itself, and what it shows while it runs."""
