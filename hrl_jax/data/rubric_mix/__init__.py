"""One reader per public source of tasks; each gives tasks of the bank."""
