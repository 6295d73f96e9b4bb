"""Labels route changes to interfaces: what may be asked, and what may be done.

A label fixes the interface, the proposer fixes the change (H-70). A candidate
that no label calls for, or that could not be applied, is not measured.
"""

from collections.abc import Sequence

from hrl_jax.harness import cases, changes, mounting, records, terms, validity
from hrl_jax.harness import operations as rubric_operations
from hrl_jax.harness.prompts import offers
from hrl_jax.methods.harnessrl import parts


def is_worth_asking(
  labelled: parts.Labelled, interfaces: Sequence[terms.Interface], cap: int
) -> bool:
  """Whether anything about a task may call for a change.

  Args:
    labelled: the task.
    interfaces: that may be changed.
    cap: fields that may be mounted.
  """
  record = labelled.record
  names = {label.name for label in record.labels}
  worth = {
    "sampling": record.is_saturated,
    "rollout": bool(labelled.draw.harness.fields)
    or ("blind" in names and cap > 0),
    "rubric": "spurious" in names or bool(_secondary(record.labels)),
  }
  return any(worth[name] for name in interfaces)


def targets(
  draw: parts.Draw, operations: Sequence[changes.Operation]
) -> tuple[terms.Target, ...]:
  """The criteria that operations are about."""
  found: list[terms.Target] = []
  for operation in operations:
    match operation:
      case changes.Lower():
        continue
      case changes.Add():
        found += operation.targets
      case changes.Drop():
        field = draw.harness.fields.get(operation.field)
        found += field.targets if field else ()
      case _:
        entries = map(
          draw.harness.rubric.find, rubric_operations.touches(operation)
        )
        found += [entry.version.target for entry in entries if entry]
  return tuple(dict.fromkeys(found))


def is_primary(
  labelled: parts.Labelled,
  interface: terms.Interface,
  operations: Sequence[changes.Operation],
) -> bool:
  """Whether a label asked for some of it (H-70, H-85).

  Operations on a rubric are secondary if no criterion is spurious, and where
  all that they name is blind, saturated or generic. One that names nothing, a
  create, answers what is spurious.
  """
  if interface != "rubric":
    return True
  labels = labelled.record.labels
  if not any(label.name == "spurious" for label in labels):
    return False
  secondary = _secondary(labels)
  named = [targets(labelled.draw, (operation,)) for operation in operations]
  return any(not each or not secondary.issuperset(each) for each in named)


def problem(
  made: parts.Parts,
  labelled: parts.Labelled,
  case: cases.ProposalCase,
  candidate: changes.Candidate,
) -> validity.Problem | None:
  """Why a candidate may not be measured, None if it may.

  Codes beside those of `validity.problem` and `mounting.problem`: "lowest" and
  "unsaturated" (the task's weight stays), "unrouted" (no label calls for it),
  "blind" (a field goes that is needed still), "doubtful" (it rests on labels
  that are too uncertain).

  Args:
    made: the evolver.
    labelled: the task.
    case: as the proposer was shown it.
    candidate: what was proposed.
  """
  if candidate.interface == "sampling":
    return _sampling_problem(labelled)
  if candidate.interface == "rollout":
    return _unrouted_guidance(labelled, candidate) or _mounting_problem(
      made, labelled, case, candidate
    )
  return (
    validity.problem(
      labelled.draw.harness.rubric,
      candidate.operations,
      rubric_version=candidate.rubric_version,
      archived={version.cid: version for version in case.archive},
      limits=made.limits,
    )
    or _unrouted_rubric(labelled, candidate)
    or _doubtful(made, labelled, candidate)
  )


def _secondary(labels: Sequence[records.Label]) -> set[terms.Target]:
  """Criteria that secondary rubric operations may be about (H-70)."""
  return {
    label.target
    for label in labels
    if label.name in ("blind", "saturated") or label.is_generic
  }


def _sampling_problem(labelled: parts.Labelled) -> validity.Problem | None:
  if labelled.draw.harness.level >= offers.LOWEST_LEVEL:
    return validity.Problem("lowest", "the task is at the lowest level")
  if not labelled.record.is_saturated:
    return validity.Problem("unsaturated", "the task is not saturated")
  return None


def _unrouted_guidance(
  labelled: parts.Labelled, candidate: changes.Candidate
) -> validity.Problem | None:
  """Whether guidance is for what is not blind, or goes while it still is."""
  blind = {
    label.target for label in labelled.record.labels if label.name == "blind"
  }
  adds = [e for e in candidate.operations if isinstance(e, changes.Add)]
  for add in adds:
    if wrong := [target[0] for target in add.targets if target not in blind]:
      return validity.Problem("unrouted", f"{', '.join(wrong)} is not blind")
  if not adds and blind.intersection(
    targets(labelled.draw, candidate.operations)
  ):
    return validity.Problem("blind", "a target of the field is blind still")
  return None


def _mounting_problem(
  made: parts.Parts,
  labelled: parts.Labelled,
  case: cases.ProposalCase,
  candidate: changes.Candidate,
) -> validity.Problem | None:
  draw = labelled.draw
  return mounting.problem(
    draw.harness.fields,
    candidate.operations,
    prompt=draw.task.prompt,
    active={entry.version.target for entry in draw.harness.rubric.entries},
    room=mounting.Room(
      cap=case.cap,
      guidance_tokens=made.knobs.guidance_tokens,
      prompt_tokens=made.knobs.prompt_tokens,
      count_text=made.count_text,
      count_prompt=made.count_prompt,
    ),
  )


def _unrouted_rubric(
  labelled: parts.Labelled, candidate: changes.Candidate
) -> validity.Problem | None:
  """Whether no label calls for a change of what a candidate touches (H-70)."""
  labels = labelled.record.labels
  if any(label.name == "spurious" for label in labels):
    return None
  allowed = _secondary(labels)
  touched = targets(labelled.draw, candidate.operations)
  wrong = [target[0] for target in touched if target not in allowed]
  if wrong or not allowed:
    return validity.Problem(
      "unrouted",
      f"no label calls for a change of {', '.join(wrong) or 'the rubric'}",
    )
  return None


def _doubtful(
  made: parts.Parts, labelled: parts.Labelled, candidate: changes.Candidate
) -> validity.Problem | None:
  """Whether a rubric candidate rests on too uncertain a label (H-63).

  Where it names no criterion it rests on the surest label that calls for it.
  """
  labels = labelled.record.labels
  named = {label.target: label for label in labels}
  touched = targets(labelled.draw, candidate.operations)
  resting = [named[target] for target in touched]
  if not resting:
    calling = [label for label in labels if label.name == "spurious"]
    calling = calling or [named[target] for target in _secondary(labels)]
    resting = [max(calling, key=lambda label: label.confidence)]
  for label in resting:
    if label.confidence < made.knobs.rubric_confidence:
      return validity.Problem(
        "doubtful",
        f"the label of {label.target[0]} has confidence "
        f"{label.confidence:.2f}, less than {made.knobs.rubric_confidence:g}",
      )
  return None
