"""What a run's harness remembers: a log, and two indices over it."""
