"""Pure arrays: credit, losses, update, draws of tasks, packing."""
