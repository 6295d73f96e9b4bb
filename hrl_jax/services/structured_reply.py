"""The object that a model was asked for, out of what it really sends.

It has to be the only one of its reply and to keep to the schema of the
question, whether or not the endpoint was told to see to that.
"""

import functools
import itertools
import json
import math
from collections.abc import Mapping
from typing import Any

import jsonschema

from hrl_jax.services import objects

# Every wrong item of an array costs the check of a schema some 30 us.
_LONGEST_OBJECT = 100_000
_MOST_PROBLEMS = 3
_LONGEST_PROBLEM = 300
_LONGEST_VALUE = 60


class ReplyError(ValueError):
  """A reply holds no object that can be relied on; says why, in one line."""


def _is_integer(_: Any, value: Any) -> bool:
  # JSON schema takes 1.0 for one, but then it is no index.
  return isinstance(value, int) and not isinstance(value, bool)


_BASE = jsonschema.Draft202012Validator
_Validator = jsonschema.validators.extend(
  _BASE, type_checker=_BASE.TYPE_CHECKER.redefine("integer", _is_integer)
)


def check_schema(schema: Mapping[str, Any]) -> None:
  """Returns if a reply can be checked against the schema.

  Raises:
    ValueError: if it is no JSON schema, or not that of an object.
  """
  _validator(json.dumps(schema))


def read(text: str, schema: Mapping[str, Any], *, cut: bool) -> dict[str, Any]:
  """The object of a reply.

  It may stand in a code fence, amid prose or after reasoning, and a comma may
  stand after its last item.

  Args:
    text: the reply, any characters.
    schema: that it has to keep to, of JSON Schema's draft 2020-12; an integer
      has no decimal point.
    cut: whether the reply was ended by its token limit; then it counts only
      if it is one complete object.

  Raises:
    ReplyError: if there is none, or more than one, or it is longer than
      100,000 characters, or it breaks the schema; names the places, as in
      `$.rubric[0].op`.
  """
  try:
    found = objects.answer(text, cut=cut, last_commas=True).objects
  except objects.ObjectError as error:
    raise ReplyError(str(error)) from None
  if not found:
    raise ReplyError(f"no JSON object in: {objects.shown(text.strip())}")
  if len(found) > 1:
    raise ReplyError(f"{len(found)} JSON objects where one was asked for")
  length = found[0].end - found[0].start
  if length > _LONGEST_OBJECT:
    raise ReplyError(
      f"a JSON object of {length:,} characters, at most {_LONGEST_OBJECT:,} "
      "are read"
    )
  value = _plain(found[0].value, "$")
  errors = _validator(json.dumps(schema)).iter_errors(value)
  problems = [_line(each) for each in itertools.islice(errors, _MOST_PROBLEMS)]
  if problems:
    raise ReplyError("; ".join(problems))
  return value


# To check a schema takes some 4 ms; a batch has one for every task at most.
@functools.lru_cache(maxsize=2048)
def _validator(schema_text: str) -> Any:
  schema = json.loads(schema_text)
  try:
    _Validator.check_schema(schema)
  except jsonschema.SchemaError as error:
    raise ValueError(
      f"The schema of a reply is none: {error.message} at {error.json_path}."
    ) from None
  if schema.get("type") != "object":
    raise ValueError(
      f"The schema of a reply has the type {schema.get('type')!r}; it must be "
      "'object'."
    )
  return _Validator(schema)


def _plain(value: Any, path: str) -> Any:
  """A value of `objects` in dicts and lists, which any file can hold."""
  if isinstance(value, tuple):
    plain = {}
    for key, item in value:
      inner = f"{path}.{_plain(key, path)}"
      if key in plain:
        raise ReplyError(f"{_printable(inner)} is there twice")
      plain[key] = _plain(item, inner)
    return plain
  if isinstance(value, list):
    return [_plain(item, f"{path}[{i}]") for i, item in enumerate(value)]
  if isinstance(value, float) and not math.isfinite(value):
    raise ReplyError(f"{_printable(path)} is {value}, which JSON does not have")
  if isinstance(value, str) and not _is_unicode(value):
    raise ReplyError(f"{_printable(path)} holds half a surrogate pair")
  return value


def _is_unicode(text: str) -> bool:
  try:
    text.encode()
  except UnicodeEncodeError:
    return False
  return True


def _line(error: jsonschema.ValidationError) -> str:
  """One problem and its place."""
  # Under "anyOf" it is the closest of the alternatives that tells.
  closest = jsonschema.exceptions.best_match([error])
  message, value = closest.message, repr(closest.instance)
  if message.startswith(value) and len(value) > _LONGEST_VALUE:
    message = value[:_LONGEST_VALUE] + "..." + message[len(value) :]
  return _printable(f"{closest.json_path}: {message}")


def _printable(text: str) -> str:
  text = text[: _LONGEST_PROBLEM + 1]
  if len(text) > _LONGEST_PROBLEM:
    text = text[: _LONGEST_PROBLEM - 3] + "..."
  return "".join(c if c.isprintable() else "\ufffd" for c in text)
