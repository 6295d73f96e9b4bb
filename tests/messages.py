"""What every error about an input has to be like."""


def check_message(error: Exception) -> str:
  """Returns the message, once it is one short paragraph of plain characters."""
  text = str(error)
  assert text.isascii() and text.isprintable(), text
  assert 20 <= len(text) <= 600, text
  assert text[-1] in ".?", text
  return text
