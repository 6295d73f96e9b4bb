"""What operations on a rubric may be (H-43).

They are checked before anything is spent on measuring them.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from hrl_jax.harness import changes, operations, rubrics, terms

Similarity = Callable[[str, Sequence[str]], Sequence[float]]


class Limits(NamedTuple):
  """What a new wording is held to.

  Attributes:
    similarity: cosines of a text to others.
    highest_similarity: at which two wordings of a task are the same (V4).
    count_tokens: of a text.
    most_tokens: of a wording (V7).
    is_judged: whether a criterion without checker can be graded.
  """

  similarity: Similarity
  highest_similarity: float
  count_tokens: Callable[[str], int]
  most_tokens: int
  is_judged: bool


class Problem(NamedTuple):
  """Why operations are refused.

  Attributes:
    code: a word, see `problem`.
    detail: a sentence for whoever proposed them.
  """

  code: str
  detail: str


def problem(
  rubric: rubrics.TaskRubric,
  proposed: Sequence[changes.RubricOperation],
  *,
  rubric_version: int,
  archived: Mapping[str, terms.Version],
  limits: Limits,
) -> Problem | None:
  """The first thing that is wrong with operations, None if they may be applied.

  Codes: "stale" (made for another version of the rubric), "unknown" (no such
  criterion), "twice" (one criterion touched twice), "anchor" (its wording is
  fixed), "parts" (a merge of less than two, a split into less than two),
  "weight" (zero, not finite or outside the seed's sizes), "sign" (a weight that
  flips, a merge of both signs), "text" (empty or too long), "unjudged" (nobody
  grades new wordings), "duplicate" (says what another criterion says), "empty"
  (no positive weight left where the seed has some), "size" (too many criteria),
  "ineffective" (nothing would change).

  Args:
    rubric: to change.
    proposed: in order.
    rubric_version: that they were made for.
    archived: last wordings of the lineages that may be restored.
    limits: of new wordings.
  """
  if rubric_version != rubric.version:
    return Problem(
      "stale",
      f"made for rubric version {rubric_version}, which is {rubric.version} "
      "now",
    )
  touched: set[str] = set()
  for operation in proposed:
    found = _problem_of_one(rubric, operation, archived) or _text_problem(
      rubric, operation, limits
    )
    if found:
      return found
    for cid in operations.touches(operation):
      if cid in touched:
        return Problem("twice", f"{cid} is touched by two operations")
      touched.add(cid)
  return _problem_of_all(rubric, proposed, limits)


def _problem_of_one(
  rubric: rubrics.TaskRubric,
  operation: changes.RubricOperation,
  archived: Mapping[str, terms.Version],
) -> Problem | None:
  """What is wrong with an operation beside its texts."""
  old = []
  for cid in operations.touches(operation):
    entry = rubric.find(cid)
    if entry is None:
      return Problem("unknown", f"the rubric has no criterion {cid!r}")
    if entry.is_anchor and not isinstance(operation, changes.Reweight):
      return Problem("anchor", f"{cid} is an anchor: it may only be reweighted")
    old.append(entry)
  match operation:
    case changes.Create(restores=str() as restored):
      if restored not in archived:
        return Problem("unknown", f"{restored!r} is not in the archive")
      sign = float(archived[restored].sign)
      return _weight_problem(rubric, operation.weight, sign)
    case changes.Create():
      return _weight_problem(rubric, operation.weight, None)
    case changes.Rewrite(text=text) if text == old[0].version.text:
      return Problem("ineffective", f"{operation.cid} says that already")
    case changes.Reweight():
      return _weight_problem(rubric, operation.weight, old[0].raw)
    case changes.Merge():
      if len(set(operation.cids)) < 2:
        return Problem("parts", "a merge takes at least two criteria")
      if len({entry.version.sign for entry in old}) > 1:
        return Problem("sign", "a merge takes criteria of one sign")
    case changes.Split():
      return _split_problem(rubric, operation, old[0].raw)
  return None


def _split_problem(
  rubric: rubrics.TaskRubric, operation: changes.Split, raw: float
) -> Problem | None:
  count = len(operation.texts)
  if count < 2:
    return Problem("parts", "a split makes at least two criteria")
  weights = operations.split_weights(operation, raw)
  if len(weights) != count:
    return Problem("parts", f"{count} texts, but {len(weights)} weights")
  if abs(sum(weights) - raw) > 1e-9 * abs(raw):
    return Problem("weight", f"the parts' weights must add up to {raw:g}")
  found = (_weight_problem(rubric, weight, raw) for weight in weights)
  return next(filter(None, found), None)


def _weight_problem(
  rubric: rubrics.TaskRubric, weight: float, old: float | None
) -> Problem | None:
  # Written so that NaN is refused.
  if not rubric.lowest <= abs(weight) <= rubric.highest:
    return Problem(
      "weight",
      f"a weight has a size of {rubric.lowest:g} to {rubric.highest:g} here, "
      f"not {weight:g}",
    )
  if old is not None and (weight > 0) != (old > 0):
    return Problem(
      "sign", f"the weight may not flip from {old:g} to {weight:g}"
    )
  return None


def _text_problem(
  rubric: rubrics.TaskRubric, operation: changes.RubricOperation, limits: Limits
) -> Problem | None:
  new = operations.texts(operation)
  if new and not limits.is_judged:
    return Problem("unjudged", "no judge grades new wordings in this run")
  for text in new:
    if not text.strip():
      return Problem("text", "a criterion needs a text")
    count = limits.count_tokens(text)
    if count > limits.most_tokens:
      return Problem(
        "text", f"{count} tokens, more than {limits.most_tokens}: {text[:80]!r}"
      )
  return None


def _problem_of_all(
  rubric: rubrics.TaskRubric,
  proposed: Sequence[changes.RubricOperation],
  limits: Limits,
) -> Problem | None:
  """What is wrong with the rubric that operations lead to."""
  after = operations.apply(rubric, proposed, step=0)
  sums = rubrics.positive_sums(after.rubric.entries)
  if rubric.free and not sums.free:
    return Problem("empty", "no positive criterion beside the anchors is left")
  if not sums.free + sums.anchored:
    return Problem("empty", "no positive criterion is left")
  if len(after.rubric.entries) > rubric.most:
    return Problem(
      "size", f"{len(after.rubric.entries)} criteria, at most {rubric.most}"
    )
  same_wordings = not after.made and not after.retired
  if same_wordings and _almost_equal(after.rubric.weights(), rubric.weights()):
    return Problem("ineffective", "no weight and no wording would change")
  return _duplicate_problem(after, limits)


def _almost_equal(new: Sequence[float], old: Sequence[float]) -> bool:
  return all(abs(a - b) <= 1e-9 * abs(b) for a, b in zip(new, old, strict=True))


def _duplicate_problem(
  after: operations.Change, limits: Limits
) -> Problem | None:
  for version in after.made:
    others = [
      entry.version.text
      for entry in after.rubric.entries
      if entry.version.target != version.target
    ]
    if not others:
      continue
    cosines = limits.similarity(version.text, others)
    closest = max(range(len(others)), key=lambda index: cosines[index])
    if cosines[closest] >= limits.highest_similarity:
      return Problem(
        "duplicate",
        f"{version.text[:80]!r} says what {others[closest][:80]!r} says",
      )
  return None
