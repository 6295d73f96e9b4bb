"""The harness of HarnessRL as text and arrays; nothing here does I/O."""
