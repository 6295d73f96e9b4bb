"""Every operation, as an answer to a question has it and as a record."""

from hrl_jax.harness import changes
from hrl_jax.harness.prompts import layout, rules
from hrl_jax.harness.prompts import proposal as prompt
from tests.harness import role_cases


def cid(number):
  return role_cases.target(number)[0]


def schema(case):
  limits = rules.Limits(128, 1_024, 3, 0.5)
  return prompt.question(case, layout.Budget(len, 100_000), limits).schema


def answer(**parts):
  noop = {"sampling": None, "rollout": None, "rubric": None, "evidence": None}
  return {"rationale": "Because.", **noop, **parts}


ROLLOUT = [
  (
    {
      "op": "add",
      "field": "criterion",
      "targets": ["c6", "c1"],
      "text": "Name the groups.",
    },
    changes.Add(
      field="criterion",
      targets=(role_cases.target(6), role_cases.target(1)),
      text="Name the groups.",
    ),
  ),
  (
    {"op": "add", "field": "reference", "targets": ["c6"]},
    changes.Add(field="reference", targets=(role_cases.target(6),), text=""),
  ),
  (
    {"op": "add", "field": "critique", "targets": ["c1"], "text": "None did."},
    changes.Add(
      field="critique", targets=(role_cases.target(1),), text="None did."
    ),
  ),
  ({"op": "drop", "field": "critique"}, changes.Drop(field="critique")),
]
RUBRIC = [
  (
    {"op": "create", "text": "is kind", "weight": 2},
    changes.Create(text="is kind", weight=2.0),
  ),
  (
    {"op": "restore", "id": "a1", "weight": 1.5},
    changes.Create(
      text="names a reaction", weight=1.5, restores=role_cases.ARCHIVED.cid
    ),
  ),
  (
    {"op": "rewrite", "id": "c2", "text": "gives the steps"},
    changes.Rewrite(cid=cid(2), text="gives the steps"),
  ),
  ({"op": "delete", "id": "c4"}, changes.Delete(cid=cid(4))),
  (
    {"op": "reweight", "id": "c5", "weight": 1.0},
    changes.Reweight(cid=cid(5), weight=1.0),
  ),
  (
    {"op": "merge", "ids": ["c1", "c6"], "text": "explains why"},
    changes.Merge(cids=(cid(1), cid(6)), text="explains why"),
  ),
  (
    {"op": "split", "id": "c3", "texts": ["a", "b"], "weights": None},
    changes.Split(cid=cid(3), texts=("a", "b")),
  ),
  (
    {"op": "split", "id": "c7", "texts": ["a", "b"], "weights": [0.5, 0.5]},
    changes.Split(cid=cid(7), texts=("a", "b"), weights=(0.5, 0.5)),
  ),
]
