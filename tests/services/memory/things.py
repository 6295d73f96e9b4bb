"""Records, seeds and memories to test with."""

import numpy as np

from hrl_jax.harness import changes, records, retrieval, terms
from hrl_jax.services.memory import embedder, memory

BANK = "bank of five tasks"
FLOOR = 0.5

TEXTS = (
  "Names the date on which the hall opens.",
  "Names the date on which the hall closes.",
  "Is written in a friendly tone.",
  "Thanks the members for their patience.",
  "Gives an address without a street.",
)


def seeds(tasks=5, texts=TEXTS):
  """Every task has every text, the last as a penalty."""
  return [
    (
      f"t{task}",
      [
        version(f"t{task}#{i}", text, -1 if i == len(texts) - 1 else 1)
        for i, text in enumerate(texts)
      ],
    )
    for task in range(tasks)
  ]


def version(cid, text, sign=1, number=0):
  return terms.Version(cid, number, text, sign, "seed")


def group(task="t0", step=0, text="hello", kind="train", **changes):
  fields = {
    "id": f"{step}/{kind}/{task}",
    "kind": kind,
    "step": step,
    "slot": 0,
    "task": task,
    "weights_version": step,
    "rubric_version": 0,
    "criteria": ((f"{task}#0", 0), (f"{task}#1", 0)),
    "weights": (1.0, 2.0),
    "fields": (),
    "rollouts": (
      records.Rollout(text, 3, "stop", 1.0, (1.0, 1.0)),
      records.Rollout(text + "!", 4, "length", 1 / 3, (1.0, 0.0)),
    ),
    "importance": 1.0,
    "minimum_valid": 2,
  }
  return records.Group(**{**fields, **changes})


def labels(task="t0", step=0):
  label = records.Label(
    target=(f"{task}#0", 0),
    name="saturated",
    reason="full",
    route=None,
    is_generic=False,
    wording=None,
    quotes=(),
    confidence=0.5,
    persistence=1,
    evidence=(),
  )
  groups = (f"{step}/train/{task}",)
  return records.Labels(
    step, task, groups, (label,), "labelled", "rules", 0.5, False
  )


def update(task="t0", made=(), retired=(), name="c0", is_accepted=True):
  candidate = changes.Candidate(
    id=name,
    step=0,
    task=task,
    interface="rubric",
    operations=(changes.Delete("t0#0"),),
    is_primary=True,
    round=0,
    rubric_version=0,
    potential=5.0,
    is_grounded=False,
    evidence=(),
    rationale="why",
    author="rules",
  )
  return changes.Update(
    candidate,
    changes.Measurement("ok", "", 1.0, 2.0, 1.0),
    changes.Decision(is_accepted, "in_band"),
    tuple(made),
    tuple(retired),
  )


def opened(folder, search="exact", **changes):
  """A memory of the seeds."""
  arguments = {
    "bank_hash": BANK,
    "seeds": seeds(),
    "embedder": embedder.HashEmbedder(32),
    "floor": FLOOR,
    "search": search,
  }
  return memory.Memory(folder, **{**arguments, **changes})


def queries(bank=None):
  """What every seed criterion asks."""
  return [
    retrieval.Query(each.target, task, each.sign, each.text)
    for task, versions in bank or seeds()
    for each in versions
  ]


def everything(kept, bank=None):
  """All that can be retrieved from a memory."""
  names = [task for task, _ in bank or seeds()]
  return kept.related(queries(bank)), kept.histories(names), kept.length()


def step(number, task="t1"):
  """The records of a step, which rewrites a criterion of a task."""
  made = version(f"{task}#0", f"Names step {number} and the date.", 1, number)
  retired = (f"{task}#0", number - 1)
  return [
    group(task, number),
    group("t2", number),
    labels(task, number),
    update(task, [made], [retired], f"c{number}"),
  ]


def points(count, dimension=16, seed=0, per_topic=5):
  """Unit vectors in clusters."""
  rng = np.random.default_rng(seed)
  topics = rng.standard_normal((max(1, count // per_topic), dimension))
  chosen = topics[rng.integers(0, len(topics), count)]
  vectors = chosen + 0.4 * rng.standard_normal((count, dimension))
  lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
  return (vectors / lengths).astype(np.float32)


class Points:
  """An embedder that looks a text's vector up by its number."""

  def __init__(self, vectors, name="points"):
    self.name = name
    self.vectors = vectors
    self.asked = []

  def embed(self, texts):
    self.asked += texts
    return self.vectors[[int(text.split()[-1]) for text in texts]]
