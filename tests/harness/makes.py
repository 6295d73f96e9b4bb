"""Short ways to make rubrics, graded groups, candidates and histories."""

from hrl_jax import base
from hrl_jax.harness import changes, history, records, rubrics, terms, validity
from tests import fakes

TASK = "t"


def target(number, version=0, task=TASK):
  return (f"{task}#{number}", version)


def seed_task(*weights, id=TASK):
  """A task whose criteria say "has 0.", "has 1." and so on."""
  criteria = [(f"has {n}.", weight) for n, weight in enumerate(weights)]
  return fakes.task(id, f"task {id}", *criteria)


def rubric(*weights, anchors=(), id=TASK):
  """The seed rubric with such weights; anchors by number."""
  cids = [target(number, task=id)[0] for number in anchors]
  return rubrics.seed(seed_task(*weights, id=id), cids)


def bank(*tasks):
  return base.Bank(tasks, "bank")


def limits(**others):
  """Texts are alike if they are equal; a token is a word."""
  known = {
    "similarity": lambda text, others: [float(text == o) for o in others],
    "highest_similarity": 0.95,
    "count_tokens": lambda text: len(text.split()),
    "most_tokens": 128,
    "is_judged": True,
  }
  return validity.Limits(**{**known, **others})


def group(patterns, *, weights=None, guided=(), texts=None, **others):
  """A graded group, by the rollouts that meet each criterion.

  Args:
    patterns: by target, such as {target(0): "110?"}; "?" is a missing score.
    weights: by target, 1 where there is none.
    guided: places of the rollouts that saw its fields.
    texts: of the rollouts.
    others: fields of the record; the reward of each rollout may be among them.
  """
  weights = [(weights or {}).get(each, 1.0) for each in patterns]
  rewards = others.pop("rewards", None)
  available = sum(weight for weight in weights if weight > 0)
  rollouts = []
  for place, column in enumerate(zip(*patterns.values(), strict=True)):
    scores = tuple(None if s == "?" else float(s) for s in column)
    reward = None
    if rewards:
      reward = rewards[place]
    elif None not in scores:
      earned = sum(w * s for w, s in zip(weights, scores, strict=True))
      reward = earned / available
    text = texts[place] if texts else f"response {place}"
    rollouts.append(
      records.Rollout(text, 2, "stop", reward, scores, place in guided)
    )
  step = others.get("step", 0)
  known = {
    "id": f"g{step}",
    "kind": "train",
    "step": step,
    "slot": 0,
    "task": TASK,
    "weights_version": step,
    "rubric_version": 0,
    "criteria": tuple(patterns),
    "weights": tuple(weights),
    "fields": (),
    "rollouts": tuple(rollouts),
    "importance": None,
    "minimum_valid": 2,
  }
  return records.Group(**{**known, **others})


def field(kind, *targets, text="do this", step=0, donors=()):
  return terms.Field(kind, targets, text, donors, step)


def label(of, name="agree", reason="separates", **others):
  known = {
    "route": None,
    "is_generic": False,
    "wording": None,
    "quotes": (),
    "confidence": 0.5,
    "persistence": 1,
    "evidence": (),
  }
  return records.Label(
    target=of, name=name, reason=reason, **{**known, **others}
  )


def labels(of, names, **others):
  """The labels of a recorded group; `names` are by target."""
  known = {
    "groups": (of.id,),
    "code": "labelled",
    "author": "rules",
    "mass": None,
    "is_saturated": False,
  }
  return records.Labels(
    step=of.step,
    task=of.task,
    labels=tuple(label(target, name) for target, name in names.items()),
    **{**known, **others},
  )


_INTERFACES = {
  changes.Lower: "sampling",
  changes.Add: "rollout",
  changes.Drop: "rollout",
}


def candidate(*operations, **others):
  step, interface = others.get("step", 3), others.get("interface")
  interface = interface or _INTERFACES.get(type(operations[0]), "rubric")
  known = {
    "id": f"c{step}:{interface}",
    "step": step,
    "task": TASK,
    "interface": interface,
    "operations": operations,
    "is_primary": True,
    "round": 0,
    "rubric_version": 0,
    "potential": 10.0,
    "is_grounded": False,
    "evidence": (),
    "rationale": "",
    "author": "rules",
  }
  return changes.Candidate(**{**known, **others})


def update(*operations, is_accepted=True, mass=0.5, **others):
  """A decided candidate; `mass` is what was measured for a lower level."""
  return changes.Update(
    candidate(*operations, **others),
    changes.Measurement("ok", "measured", after=mass, delta=12.0),
    changes.Decision(is_accepted, "within" if is_accepted else "below"),
  )


def story(*told, task=TASK):
  """The history of a task after some records, which lie at 0, 1, ..."""
  known = history.History(task)
  for offset, record in enumerate(told):
    known = history.extend(known, record, history.Place(offset, 1))
  return known


def seen(of):
  return history.digest(of, history.Place(0, 0))
