"""A draw as the roles are shown it: views and lines of text."""

from collections.abc import Iterator, Mapping, Sequence

from hrl_jax.harness import (
  cases,
  changes,
  donors,
  history,
  operations,
  records,
  retrieval,
  terms,
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


def operation(made: changes.Operation) -> str:
  """An operation in words."""
  match made:
    case changes.Lower():
      return "draw the task less often"
    case changes.Add():
      targets = ", ".join(cid for cid, _ in made.targets)
      return f"mount <{made.field}> for {targets}"
    case changes.Drop():
      return f"withdraw <{made.field}>"
    case changes.Create():
      what = f"restore {made.restores}" if made.restores else "create"
      return f"{what} ({made.weight:+g}): {made.text}"
    case changes.Rewrite():
      return f"rewrite {made.cid}: {made.text}"
    case changes.Delete():
      return f"delete {made.cid}"
    case changes.Reweight():
      return f"reweight {made.cid} to {made.weight:+g}"
    case changes.Merge():
      return f"merge {', '.join(made.cids)}: {made.text}"
  return f"split {made.cid}: {' | '.join(made.texts)}"


def update(made: changes.Update) -> str:
  """A candidate with its measurement and verdict, on one line."""
  what = "; ".join(map(operation, made.candidate.operations))
  delta = made.measurement.delta
  effect = "not measured" if delta is None else f"{delta:+.1f} points"
  verdict = "accepted" if made.decision.is_accepted else "rejected"
  return f"{what}. {effect}, {verdict} ({made.decision.code})"


def outcome(made: changes.Outcome) -> str:
  """What became of an accepted candidate by a later draw, on one line."""
  known = [f"{cid}@{version} {name}" for (cid, version), name in made.labels]
  if made.mass_delta is not None:
    known.append(f"mass {made.mass_delta:+.2f}")
  if made.points_delta is not None:
    known.append(f"{made.points_delta:+.1f} points")
  return f"by draw {made.draw} after it: {', '.join(known) or 'not known'}"


def _criteria(
  draw: parts.Draw,
  rollouts: Sequence[records.Rollout],
  labels: Mapping[terms.Target, records.Label],
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
  """One line for each group that matters and each change, in order (H-52).

  The cap takes fields away before a step's groups are sampled; fields without
  their target go after its updates.
  """
  lines = [(seen.step, 1, _group(seen)) for seen in _groups_that_matter(before)]
  lines += [
    (each.candidate.step, 2, _with_outcomes(each, before.outcomes))
    for each in before.updates
  ]
  lines += [
    (
      each.step,
      0 if each.code == "cap" else 3,
      f"step {each.step}: <{each.field}> went ({each.code})",
    )
    for each in before.removals
  ]
  return (line for _, _, line in sorted(lines, key=lambda each: each[:2]))


def _with_outcomes(
  made: changes.Update, outcomes: Sequence[changes.Outcome]
) -> str:
  line = f"step {made.candidate.step}: {update(made)}"
  later = [each for each in outcomes if each.candidate == made.candidate.id]
  return "; ".join([line, *map(outcome, later)])


def _groups_that_matter(before: history.History) -> list[history.Seen]:
  """The first, the last four draws, and those where reach changed (H-52)."""
  draws = before.draws()
  kept = {seen.id for seen in (*draws[:1], *draws[-_RECENT:])}
  reached: dict[terms.Target, bool] = {}
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
  labels: Mapping[terms.Target, records.Label],
) -> Iterator[cases.RelatedView]:
  """The nearest criteria of other tasks; first of what a role is asked about.

  That is whether a separating criterion is hacked, and how a blind one may be
  reached. Each lineage comes once, and all are few enough for a prompt (H-53).
  """
  asked = {
    target
    for target, label in labels.items()
    if label.reason in ("separates", "never_met")
  }
  nearest = sorted(
    (
      (own not in asked, -hit.similarity, hit.target, own, hit)
      for own, hits in draw.hits.items()
      for hit in hits
      if own in labels
    ),
    key=lambda each: each[:4],
  )
  once: dict[str, tuple[terms.Target, retrieval.Hit]] = {}
  for *_, own, hit in nearest:
    once.setdefault(hit.target[0], (own, hit))
  kept = [*once.values()][: made.knobs.related_shown]
  return (_view(made, draw, own, hit) for own, hit in kept)


def _view(
  made: parts.Parts,
  draw: parts.Draw,
  own: terms.Target,
  hit: retrieval.Hit,
) -> cases.RelatedView:
  known = draw.others[hit.task]
  fared = [
    (seen, tally)
    for seen in known.seen
    if not seen.is_thin
    for tally in seen.tallies
    if tally.target == hit.target
  ]
  seen, tally = fared[-1] if fared else (None, None)
  return cases.RelatedView(
    to=own,
    target=hit.target,
    text=hit.text,
    similarity=hit.similarity,
    passes=(int(tally.reached), seen.valid) if seen else (0, 0),
    labels=tuple(tally.label for _, tally in fared if tally.label),
    positive=_example(
      made, hit.target, [s for s, t in fared if t.reached > 0], True
    ),
    negative=_example(
      made, hit.target, [s for s, t in fared if t.reached < s.valid], False
    ),
    updates=tuple(
      update(each) for each in known.updates if _touches(each, hit.target[0])
    ),
  )


def _example(
  made: parts.Parts,
  target: terms.Target,
  seen: Sequence[history.Seen],
  wanted: bool,
) -> str | None:
  """A response of the newest group that reaches a criterion, or that does not.

  Args:
    made: the evolver.
    target: the criterion.
    seen: groups that have such a response.
    wanted: whether the response reaches it.
  """
  if not seen:
    return None
  group = made.memory.group(seen[-1].place)
  index = group.criteria.index(target)
  is_penalty = group.weights[index] < 0
  return next(
    (
      rollout.text
      for rollout in group.rollouts
      if rollout.reward is not None
      and donors.desired(rollout, index, is_penalty) is wanted
    ),
    None,
  )


def _touches(made: changes.Update, cid: str) -> bool:
  for each in made.candidate.operations:
    match each:
      case changes.Lower() | changes.Drop():
        continue
      case changes.Add():
        names = [name for name, _ in each.targets]
      case _:
        names = operations.touches(each)
    if cid in names:
      return True
  return False
