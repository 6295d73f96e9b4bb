"""From draws to labels: what is computed, then what the roles are asked."""

from collections.abc import Sequence

from hrl_jax.harness import attribution, cases, records
from hrl_jax.methods.harnessrl import parts, telling


def label(
  made: parts.Parts,
  draws: Sequence[parts.Draw],
  step: int,
  levels: Sequence[float],
) -> tuple[parts.Labelled, ...]:
  """The labels of every draw, with what was answered and believed.

  Args:
    made: the evolver.
    draws: of the step.
    step: updates before it.
    levels: weights of the four sampling levels.
  """
  labels = [_computed(made, draw) for draw in draws]
  shown = [
    telling.case(made, draw, of_draw, step)
    for draw, of_draw in zip(draws, labels, strict=True)
  ]
  problems: list[tuple[str, ...]] = [()] * len(draws)
  asked = [
    i for i, case in enumerate(shown) if case.separating() or case.full()
  ]
  answers = made.roles.attribute([shown[i] for i in asked])
  for i, answer in zip(asked, answers, strict=True):
    labels[i], problems[i] = attribution.with_answers(
      labels[i], draws[i].before, shown[i], answer
    )
  loose = {
    i: [each.target for each in labels[i] if _is_loose(each)]
    for i in range(len(draws))
  }
  asked = [i for i in loose if loose[i]]
  wordings = made.roles.check_wording(
    [(_relabelled(shown[i], labels[i]), loose[i]) for i in asked]
  )
  for i, wording in zip(asked, wordings, strict=True):
    labels[i], more = attribution.with_wording(labels[i], shown[i], wording)
    problems[i] += more
  return tuple(
    parts.Labelled(
      draw,
      _relabelled(case, of_draw),
      _record(made, draw, of_draw, trouble, step, levels),
    )
    for draw, case, of_draw, trouble in zip(
      draws, shown, labels, problems, strict=True
    )
  )


def _computed(made: parts.Parts, draw: parts.Draw) -> tuple[records.Label, ...]:
  return attribution.computed(draw.seen, draw.before, made.knobs.attribution)


def _is_loose(label: records.Label) -> bool:
  """Whether the wording of a criterion lets a surface form pass (H-64)."""
  return label.name == "spurious" or label.is_generic


def _relabelled(
  case: cases.Case, labels: Sequence[records.Label]
) -> cases.Case:
  named = {label.target: label for label in labels}
  criteria = tuple(
    view._replace(
      label=named[view.target].name, reason=named[view.target].reason
    )
    if view.target in named
    else view
    for view in case.criteria
  )
  return case._replace(criteria=criteria)


def _record(
  made: parts.Parts,
  draw: parts.Draw,
  labels: tuple[records.Label, ...],
  problems: tuple[str, ...],
  step: int,
  levels: Sequence[float],
) -> records.Labels:
  mass = draw.seen[0].mass
  below = draw.harness.level + 1
  saturated = attribution.is_saturated(
    labels,
    mass,
    draw.before,
    last_mass=draw.harness.mass,
    next_level=levels[below] if below < len(levels) else None,
    knobs=made.knobs.attribution,
  )
  return records.Labels(
    step=step,
    task=draw.task.id,
    groups=tuple(group.id for group in draw.groups),
    labels=labels,
    code="labelled" if labels else "thin_group",
    author=made.roles.author,
    mass=mass,
    is_saturated=saturated,
    problems=problems,
  )
