"""Every operation, as an answer to a question has it and as a record."""

from hrl_jax.harness import records
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
    records.Add(
      field="criterion",
      targets=(role_cases.target(6), role_cases.target(1)),
      text="Name the groups.",
    ),
  ),
  (
    {"op": "add", "field": "reference", "targets": ["c6"]},
    records.Add(field="reference", targets=(role_cases.target(6),), text=""),
  ),
  (
    {"op": "add", "field": "critique", "targets": ["c1"], "text": "None did."},
    records.Add(
      field="critique", targets=(role_cases.target(1),), text="None did."
    ),
  ),
  ({"op": "drop", "field": "critique"}, records.Drop(field="critique")),
]
RUBRIC = [
  (
    {"op": "create", "text": "is kind", "weight": 2},
    records.Create(text="is kind", weight=2.0),
  ),
  (
    {"op": "restore", "id": "a1", "weight": 1.5},
    records.Create(
      text="names a reaction", weight=1.5, restores=role_cases.ARCHIVED.cid
    ),
  ),
  (
    {"op": "rewrite", "id": "c2", "text": "gives the steps"},
    records.Rewrite(cid=cid(2), text="gives the steps"),
  ),
  ({"op": "delete", "id": "c4"}, records.Delete(cid=cid(4))),
  (
    {"op": "reweight", "id": "c5", "weight": 1.0},
    records.Reweight(cid=cid(5), weight=1.0),
  ),
  (
    {"op": "merge", "ids": ["c1", "c6"], "text": "explains why"},
    records.Merge(cids=(cid(1), cid(6)), text="explains why"),
  ),
  (
    {"op": "split", "id": "c3", "texts": ["a", "b"], "weights": None},
    records.Split(cid=cid(3), texts=("a", "b")),
  ),
  (
    {"op": "split", "id": "c7", "texts": ["a", "b"], "weights": [0.5, 0.5]},
    records.Split(cid=cid(7), texts=("a", "b"), weights=(0.5, 0.5)),
  ),
]
