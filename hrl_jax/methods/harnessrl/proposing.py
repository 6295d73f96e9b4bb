"""From labels to candidates: what is proposed, and whether it is valid."""

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from hrl_jax import protocols
from hrl_jax.harness import cases, mounting, records, rubrics, validity
from hrl_jax.harness import operations as rubric_operations
from hrl_jax.methods.harnessrl import parts, referring, views


class Proposed(NamedTuple):
  """A candidate, and whether it may be measured.

  Attributes:
    labelled: the task.
    candidate: itself.
    problem: why it may not, None if it may.
  """

  labelled: parts.Labelled
  candidate: records.Candidate
  problem: validity.Problem | None


def propose(
  made: parts.Parts,
  asked: Sequence[parts.Labelled],
  rejections: Mapping[str, tuple[cases.Rejection, ...]],
  step: int,
  round: int,
  probe: protocols.Probe,
) -> tuple[Proposed, ...]:
  """Asks for a change of each interface and checks what comes back.

  Args:
    made: the evolver.
    asked: tasks to ask about.
    rejections: of the round before, by task id: only their interfaces are open
      then (H-74).
    step: updates before it.
    round: 0, or 1 for revised candidates.
    probe: grades donors by this task's criterion (H-40b).

  Returns:
    Candidates by task, in the order in which they would be committed (H-88).
  """
  shown = [
    _case(made, each, rejections.get(each.draw.task.id, ()), step)
    for each in asked
  ]
  answers = referring.assemble(
    made, shown, made.roles.propose(shown), asked, probe, f"donors {round}"
  )
  return tuple(
    proposed
    for labelled, case, answer in zip(asked, shown, answers, strict=True)
    for proposed in _proposed(made, labelled, case, answer, step, round)
  )


def is_worth_asking(labelled: parts.Labelled) -> bool:
  """Whether anything about a task may call for a change."""
  record = labelled.record
  if record.code == "thin_group":
    return False
  return (
    record.is_saturated
    or bool(labelled.draw.harness.fields)
    or any(each.name != "agree" or each.is_generic for each in record.labels)
  )


def archive(draw: parts.Draw) -> dict[str, records.Version]:
  """Last wordings of the lineages that left the rubric, by lineage."""
  known = {each.target: each for each in rubrics.seed_versions(draw.task)}
  gone: dict[str, records.Version] = {}
  for update in draw.before.updates:
    known |= {version.target: version for version in update.made}
    gone |= {target[0]: known[target] for target in update.retired}
  return {
    cid: version
    for cid, version in gone.items()
    if draw.harness.rubric.find(cid) is None
  }


def _case(
  made: parts.Parts,
  labelled: parts.Labelled,
  rejections: tuple[cases.Rejection, ...],
  step: int,
) -> cases.ProposalCase:
  draw, rubric = labelled.draw, labelled.draw.harness.rubric
  open_to = made.knobs.interfaces
  if rejections:
    open_to = tuple(each.candidate.interface for each in rejections)
  blind = [
    label.target
    for label in labelled.record.labels
    if label.name == "blind" and "rollout" in open_to
  ]
  return cases.ProposalCase(
    case=labelled.case,
    labels=labelled.record.labels,
    is_saturated=labelled.record.is_saturated,
    level=draw.harness.level,
    fields=draw.harness.fields,
    cap=views.cap(step, made.num_steps),
    donations={
      target: referring.donations(made, draw, target) for target in blind
    },
    archive=tuple(archive(draw).values()),
    interfaces=open_to,
    lowest=rubric.lowest,
    highest=rubric.highest,
    most=rubric.most,
    writes=made.limits.is_judged,
    updates=draw.before.updates,
    rejections=rejections,
    pool=made.pool(draw.task.id),
  )


def _proposed(
  made: parts.Parts,
  labelled: parts.Labelled,
  case: cases.ProposalCase,
  answer: cases.Proposal,
  step: int,
  round: int,
) -> Iterator[Proposed]:
  """A candidate for each interface that an answer changes."""
  by_interface = {
    "rubric": answer.rubric,
    "rollout": answer.rollout,
    "sampling": answer.sampling,
  }
  for interface, operations in by_interface.items():
    if operations and interface in case.interfaces:
      candidate = _candidate(
        made, labelled, answer, interface, operations, step, round
      )
      problem = _problem(made, labelled, case, candidate)
      yield Proposed(labelled, candidate, problem)


def _candidate(
  made: parts.Parts,
  labelled: parts.Labelled,
  answer: cases.Proposal,
  interface: records.Interface,
  operations: tuple[records.Operation, ...],
  step: int,
  round: int,
) -> records.Candidate:
  draw = labelled.draw
  targets = _targets(draw, operations)
  points = {view.target: abs(view.points) for view in labelled.case.criteria}
  return records.Candidate(
    id=f"{step}:{draw.task.id}:{interface}:{round}",
    step=step,
    task=draw.task.id,
    interface=interface,
    operations=operations,
    is_primary=_is_primary(labelled, interface, targets),
    round=round,
    rubric_version=draw.harness.rubric.version,
    potential=sum(points.get(target, 0.0) for target in targets),
    is_grounded=any(draw.hits.get(target) for target in targets),
    evidence=answer.evidence,
    rationale=answer.rationale,
    author=made.roles.author,
  )


def _targets(
  draw: parts.Draw, operations: Sequence[records.Operation]
) -> tuple[records.Target, ...]:
  """The criteria that operations are about."""
  targets: list[records.Target] = []
  for operation in operations:
    match operation:
      case records.Lower():
        continue
      case records.Add():
        targets += operation.targets
      case records.Drop():
        field = draw.harness.fields.get(operation.field)
        targets += field.targets if field else ()
      case _:
        entries = map(
          draw.harness.rubric.find, rubric_operations.touches(operation)
        )
        targets += [each.version.target for each in entries if each]
  return tuple(dict.fromkeys(targets))


def _is_primary(
  labelled: parts.Labelled,
  interface: records.Interface,
  targets: Sequence[records.Target],
) -> bool:
  """Whether a label asked for it (H-70, H-85).

  A rubric candidate is one of secondary operations only if no criterion is
  spurious, or if all that it touches is blind, saturated or generic.
  """
  if interface != "rubric":
    return True
  labels = labelled.record.labels
  if not any(label.name == "spurious" for label in labels):
    return False
  return not targets or not _secondary(labels).issuperset(targets)


def _secondary(labels: Sequence[records.Label]) -> set[records.Target]:
  """Criteria that secondary rubric operations may be about (H-70)."""
  return {
    label.target
    for label in labels
    if label.name in ("blind", "saturated") or label.is_generic
  }


def _problem(
  made: parts.Parts,
  labelled: parts.Labelled,
  case: cases.ProposalCase,
  candidate: records.Candidate,
) -> validity.Problem | None:
  draw = labelled.draw
  if candidate.interface == "sampling":
    if draw.harness.level >= 3:
      return validity.Problem("lowest", "the task is at the lowest level")
    if not labelled.record.is_saturated:
      return validity.Problem("unsaturated", "the task is not saturated")
    return None
  if candidate.interface == "rubric":
    return (
      validity.problem(
        draw.harness.rubric,
        candidate.operations,
        rubric_version=candidate.rubric_version,
        archived=archive(draw),
        limits=made.limits,
      )
      or _unrouted_rubric(labelled, candidate)
      or _doubtful(made, labelled, candidate)
    )
  return _unrouted_guidance(labelled, candidate) or mounting.problem(
    draw.harness.fields,
    candidate.operations,
    prompt=draw.task.prompt,
    active={e.version.target for e in draw.harness.rubric.entries},
    room=mounting.Room(
      cap=case.cap,
      guidance_tokens=made.knobs.guidance_tokens,
      prompt_tokens=made.knobs.prompt_tokens,
      count_text=made.count_text,
      count_prompt=made.count_prompt,
    ),
  )


def _unrouted_rubric(
  labelled: parts.Labelled, candidate: records.Candidate
) -> validity.Problem | None:
  """Whether no label calls for a change of what a candidate touches (H-70)."""
  labels = labelled.record.labels
  if any(label.name == "spurious" for label in labels):
    return None
  allowed = _secondary(labels)
  targets = _targets(labelled.draw, candidate.operations)
  wrong = [target[0] for target in targets if target not in allowed]
  if wrong or not allowed:
    return validity.Problem(
      "unrouted",
      f"no label calls for a change of {', '.join(wrong) or 'the rubric'}",
    )
  return None


def _unrouted_guidance(
  labelled: parts.Labelled, candidate: records.Candidate
) -> validity.Problem | None:
  """Whether guidance is for what is not blind, or goes while it still is."""
  blind = {
    label.target for label in labelled.record.labels if label.name == "blind"
  }
  adds = [e for e in candidate.operations if isinstance(e, records.Add)]
  for add in adds:
    wrong = [cid for cid, version in add.targets if (cid, version) not in blind]
    if wrong:
      return validity.Problem("unrouted", f"{', '.join(wrong)} is not blind")
  if not adds and blind.intersection(
    _targets(labelled.draw, candidate.operations)
  ):
    return validity.Problem("blind", "a target of the field is blind still")
  return None


def _doubtful(
  made: parts.Parts, labelled: parts.Labelled, candidate: records.Candidate
) -> validity.Problem | None:
  """Whether a rubric candidate rests on too uncertain a label (H-63)."""
  named = {label.target: label for label in labelled.record.labels}
  for target in _targets(labelled.draw, candidate.operations):
    confidence = named[target].confidence
    if confidence < made.knobs.rubric_confidence:
      return validity.Problem(
        "doubtful",
        f"the label of {target[0]} has confidence {confidence:.2f}, less than "
        f"{made.knobs.rubric_confidence:g}",
      )
  return None
