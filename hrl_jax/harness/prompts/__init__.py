"""What the evolver's roles are asked: a case in, messages and a schema out."""
