"""What the evolver's roles answered: the object of a reply in, records out.

An object may be any JSON value. A part of it either keeps to the schema of its
question and is read as it stands, or it is left out and a problem says why;
nothing is guessed and nothing is raised.
"""
