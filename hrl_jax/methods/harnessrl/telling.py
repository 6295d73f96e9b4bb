"""A draw as the roles are shown it: views and lines of text."""

from collections.abc import Iterator, Sequence

from hrl_jax.harness import (
  cases,
  donors,
  history,
  operations,
  records,
  retrieval,
)
from hrl_jax.methods.harnessrl import parts

# Groups of a task's history that are told, beside those in which a criterion
# was reached for the first time or lost again (H-52).
_RECENT = 4


def case(
  made: parts.Parts,
  draw: parts.Draw,
  labels: Sequence[records.Label],
  step: int,
) -> cases.Case:
  """What the attributor is shown of a draw (H-60, H-52, H-53)."""
  rollouts = [r for group in draw.groups for r in group.rollouts]
  named = {label.target: label for label in labels}
  return cases.Case(
    step=step,
    task=draw.task.id,
    prompt=draw.task.prompt,
    criteria=tuple(_criteria(draw, rollouts, named)),
    responses=tuple(rollout.text for rollout in rollouts),
    rewards=tuple(
      None if r.reward is None else history.POINTS * r.reward for r in rollouts
    ),
    history=tuple(_history(draw.before)),
    related=tuple(_related(made, draw, named)),
  )


def operation(made: records.Operation) -> str:
  """An operation in words."""
  match made:
    case records.Lower():
      return "draw the task less often"
    case records.Add():
      targets = ", ".join(cid for cid, _ in made.targets)
      return f"mount <{made.field}> for {targets}"
    case records.Drop():
      return f"withdraw <{made.field}>"
    case records.Create():
      what = f"restore {made.restores}" if made.restores else "create"
      return f"{what} ({made.weight:+g}): {made.text}"
    case records.Rewrite():
      return f"rewrite {made.cid}: {made.text}"
    case records.Delete():
      return f"delete {made.cid}"
    case records.Reweight():
      return f"reweight {made.cid} to {made.weight:+g}"
    case records.Merge():
      return f"merge {', '.join(made.cids)}: {made.text}"
  return f"split {made.cid}: {' | '.join(made.texts)}"


def update(made: records.Update) -> str:
  """A candidate with its measurement and verdict, on one line."""
  what = "; ".join(map(operation, made.candidate.operations))
  delta = made.measurement.delta
  effect = "not measured" if delta is None else f"{delta:+.1f} points"
  verdict = "accepted" if made.decision.is_accepted else "rejected"
  return f"{what}. {effect}, {verdict} ({made.decision.code})"


def _criteria(
  draw: parts.Draw,
  rollouts: Sequence[records.Rollout],
  labels: dict[records.Target, records.Label],
) -> Iterator[cases.CriterionView]:
  rubric = draw.harness.rubric
  for index, (entry, weight) in enumerate(
    zip(rubric.entries, rubric.weights(), strict=True)
  ):
    label = labels.get(entry.version.target)
    scores = [
      None if rollout.reward is None else rollout.scores[index]
      for rollout in rollouts
    ]
    yield cases.CriterionView(
      target=entry.version.target,
      text=entry.version.text,
      points=rubric.kappa * weight,
      raw=entry.raw,
      is_anchor=entry.is_anchor,
      met=tuple(None if score is None else score > 0.5 for score in scores),
      label=label.name if label else "agree",
      reason=label.reason if label else "thin_group",
    )


def _history(before: history.History) -> Iterator[str]:
  """One line for each group that matters, and each update, in order."""
  lines = [(seen.step, 0, _group(seen)) for seen in _groups_that_matter(before)]
  lines += [
    (each.candidate.step, 1, f"step {each.candidate.step}: {update(each)}")
    for each in before.updates
  ]
  return (line for _, _, line in sorted(lines, key=lambda each: each[:2]))


def _groups_that_matter(before: history.History) -> list[history.Seen]:
  """The first, the last four draws, and those where reach changed (H-52)."""
  draws = before.draws()
  kept = {seen.id for seen in (*draws[:1], *draws[-_RECENT:])}
  reached: dict[records.Target, bool] = {}
  for seen in draws:
    for tally in seen.tallies:
      now = tally.reached > 0
      if reached.get(tally.target, now) != now:
        kept.add(seen.id)
      reached[tally.target] = now
  return [seen for seen in draws if seen.id in kept]


def _group(seen: history.Seen) -> str:
  when = "first policy" if seen.kind == "cold" else f"step {seen.step}"
  if seen.is_thin:
    return f"{when}: too few graded rollouts"
  counts = " ".join(
    f"{tally.target[0]}@{tally.target[1]}:{tally.reached:g}/{seen.valid}"
    + (f"({tally.label})" if tally.label else "")
    for tally in seen.tallies
  )
  fields = f", with {' and '.join(seen.mounted)}" if seen.mounted else ""
  return f"{when}: {seen.points:.1f} points{fields}; {counts}"


def _related(
  made: parts.Parts,
  draw: parts.Draw,
  labels: dict[records.Target, records.Label],
) -> Iterator[cases.RelatedView]:
  """The nearest criteria of other tasks, those asked about first."""
  nearest = sorted(
    (
      (-hit.similarity, hit.target, own, hit)
      for own, hits in draw.hits.items()
      for hit in hits
      if own in labels and labels[own].reason in ("separates", "never_met")
    ),
    key=lambda each: each[:3],
  )
  shown: set[records.Target] = set()
  for _, target, own, hit in nearest:
    if target in shown or len(shown) == made.knobs.related_shown:
      continue
    shown.add(target)
    yield _view(made, draw, own, hit)


def _view(
  made: parts.Parts,
  draw: parts.Draw,
  own: records.Target,
  hit: retrieval.Hit,
) -> cases.RelatedView:
  known = draw.others[hit.task]
  seen = [
    each
    for each in known.seen
    if not each.is_thin and any(t.target == hit.target for t in each.tallies)
  ]
  tallies = [
    tally
    for each in seen
    for tally in each.tallies
    if tally.target == hit.target
  ]
  positive = negative = None
  if seen:
    group = made.memory.group(seen[-1].place)
    positive, negative = _examples(group, hit.target)
  return cases.RelatedView(
    to=own,
    target=hit.target,
    text=hit.text,
    similarity=hit.similarity,
    passes=(int(tallies[-1].reached), seen[-1].valid) if seen else (0, 0),
    labels=tuple(tally.label for tally in tallies if tally.label),
    positive=positive,
    negative=negative,
    updates=tuple(
      update(each) for each in known.updates if _touches(each, hit.target[0])
    ),
  )


def _examples(
  group: records.Group, target: records.Target
) -> tuple[str | None, str | None]:
  """A response that reaches a criterion and one that does not."""
  index = group.criteria.index(target)
  is_penalty = group.weights[index] < 0
  reaching: list[str] = []
  failing: list[str] = []
  for rollout in group.rollouts:
    if rollout.reward is not None:
      met = donors.desired(rollout, index, is_penalty)
      (reaching if met else failing).append(rollout.text)
  return (
    reaching[0] if reaching else None,
    failing[0] if failing else None,
  )


def _touches(made: records.Update, cid: str) -> bool:
  for each in made.candidate.operations:
    match each:
      case records.Lower() | records.Drop():
        continue
      case records.Add():
        names = [name for name, _ in each.targets]
      case _:
        names = operations.touches(each)
    if cid in names:
      return True
  return False
