"""From labels to candidates: what is proposed for each interface."""

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from hrl_jax import protocols
from hrl_jax.harness import cases, changes, rubrics, terms
from hrl_jax.methods.harnessrl import parts, referring, routing


class Round(NamedTuple):
  """What came back when changes were asked for.

  Attributes:
    proposed: candidates by task, in the order in which they would be committed
      (H-88).
    problems: by task id, what was answered that could not be used, and why.
    gradings: of donors.
  """

  proposed: tuple[parts.Proposed, ...]
  problems: Mapping[str, tuple[str, ...]]
  gradings: int


def propose(
  made: parts.Parts,
  asked: Sequence[parts.Labelled],
  rejections: Mapping[str, tuple[cases.Rejection, ...]],
  *,
  cap: int,
  round: int,
  probe: protocols.Probe,
) -> Round:
  """Asks for a change of each interface and checks what comes back.

  Args:
    made: the evolver.
    asked: tasks to ask about.
    rejections: of the round before, by task id: only their interfaces are open
      then (H-74).
    cap: fields that a task may have mounted.
    round: 0, or 1 for revised candidates.
    probe: grades donors by this task's criterion (H-40b).
  """
  shown = [
    _case(made, each, rejections.get(each.draw.task.id, ()), cap)
    for each in asked
  ]
  answers, gradings = referring.assemble(
    made, shown, made.roles.propose(shown), asked, probe, f"donors {round}"
  )
  return Round(
    proposed=tuple(
      proposed
      for labelled, case, answer in zip(asked, shown, answers, strict=True)
      for proposed in _proposed(made, labelled, case, answer, round)
    ),
    problems={
      case.case.task: answer.problems
      for case, answer in zip(shown, answers, strict=True)
    },
    gradings=gradings,
  )


def archive(draw: parts.Draw) -> tuple[terms.Version, ...]:
  """Last wordings of the lineages that left the rubric, oldest first."""
  known = {each.target: each for each in rubrics.seed_versions(draw.task)}
  gone: dict[str, terms.Version] = {}
  for update in draw.before.updates:
    known |= {version.target: version for version in update.made}
    gone |= {target[0]: known[target] for target in update.retired}
  return tuple(
    version
    for cid, version in gone.items()
    if draw.harness.rubric.find(cid) is None
  )


def _case(
  made: parts.Parts,
  labelled: parts.Labelled,
  rejections: tuple[cases.Rejection, ...],
  cap: int,
) -> cases.ProposalCase:
  draw, rubric = labelled.draw, labelled.draw.harness.rubric
  open_to = made.knobs.interfaces
  if rejections:
    open_to = tuple(each.candidate.interface for each in rejections)
  guided = [
    label.target
    for label in labelled.record.labels
    if label.name == "blind" and "rollout" in open_to and cap
  ]
  return cases.ProposalCase(
    case=labelled.case,
    labels=labelled.record.labels,
    is_saturated=labelled.record.is_saturated,
    level=draw.harness.level,
    fields=draw.harness.fields,
    cap=cap,
    donations={
      target: referring.donations(made, draw, target) for target in guided
    },
    archive=archive(draw),
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
  round: int,
) -> Iterator[parts.Proposed]:
  """A candidate for each open interface that an answer changes."""
  by_interface = {
    "rubric": answer.rubric,
    "rollout": answer.rollout,
    "sampling": answer.sampling,
  }
  for interface, operations in by_interface.items():
    if operations and interface in case.interfaces:
      candidate = _candidate(
        made, labelled, answer, interface, operations, round
      )
      problem = routing.problem(made, labelled, case, candidate)
      yield parts.Proposed(labelled, candidate, problem)


def _candidate(
  made: parts.Parts,
  labelled: parts.Labelled,
  answer: cases.Proposal,
  interface: terms.Interface,
  operations: tuple[changes.Operation, ...],
  round: int,
) -> changes.Candidate:
  draw, step = labelled.draw, labelled.record.step
  targets = routing.targets(draw, operations)
  points = {view.target: abs(view.points) for view in labelled.case.criteria}
  return changes.Candidate(
    id=f"{step}:{draw.task.id}:{interface}:{round}",
    step=step,
    task=draw.task.id,
    interface=interface,
    operations=operations,
    is_primary=routing.is_primary(labelled, interface, operations),
    round=round,
    rubric_version=draw.harness.rubric.version,
    potential=sum(points.get(target, 0.0) for target in targets),
    is_grounded=any(draw.hits.get(target) for target in targets),
    evidence=answer.evidence,
    rationale=answer.rationale,
    author=made.roles.author,
  )
