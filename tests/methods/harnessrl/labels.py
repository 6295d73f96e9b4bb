"""A task with given labels, as the proposer's side of the evolver takes it."""

from hrl_jax.harness import cases, history, records, rubrics, terms
from hrl_jax.harness import state as states
from hrl_jax.methods.harnessrl import parts
from tests.methods.harnessrl import world

TASK = world.bank(1).tasks[0]
NAMES = ("agree", "agree", "agree", "agree", "agree", "agree")


def target(number, version=0):
  return (f"t0#{number}", version)


def field(kind, *numbers):
  return terms.Field(kind, tuple(map(target, numbers)), "Has z.", (), 0)


def label(number, name, *, is_generic=False, confidence=0.5):
  return records.Label(
    target=target(number),
    name=name,
    reason="",
    route=None,
    is_generic=is_generic,
    wording=None,
    quotes=(),
    confidence=confidence,
    persistence=1,
    evidence=(),
  )


def labelled(
  names=NAMES,
  *,
  generic=(),
  confidences=(),
  fields=(),
  level=0,
  saturated=False,
):
  """A draw of the letters' task; a label for each of its six criteria."""
  confidences = dict(confidences)
  labels = tuple(
    label(
      number,
      name,
      is_generic=number in generic,
      confidence=confidences.get(number, 0.5),
    )
    for number, name in enumerate(names)
  )
  draw = parts.Draw(
    place=0,
    task=TASK,
    harness=states.TaskHarness(
      level, 0.5, {each.kind: each for each in fields}, rubrics.seed(TASK)
    ),
    groups=(),
    seen=(),
    before=history.History("t0"),
    hits={},
    others={},
  )
  record = records.Labels(
    step=3,
    task="t0",
    groups=(),
    labels=labels,
    code="labelled" if labels else "thin_group",
    author="fake",
    mass=0.5,
    is_saturated=saturated,
  )
  case = cases.Case(3, "t0", TASK.prompt, (), (), (), (), ())
  return parts.Labelled(draw, case, record)
