"""What a harness speaks of: wordings, fields, labels, interfaces."""

from collections.abc import Mapping
from typing import Any, Literal

import msgspec

# A criterion at one wording: the id of its lineage, and its version. A rewrite
# keeps the lineage and counts the version up.
Target = tuple[str, int]

FieldKind = Literal["criterion", "reference", "critique"]
FIELD_KINDS: tuple[FieldKind, ...] = ("criterion", "reference", "critique")
"""The guidance fields, in the order in which they are mounted (H-37)."""

Interface = Literal["sampling", "rollout", "rubric"]
INTERFACES: tuple[Interface, ...] = ("sampling", "rollout", "rubric")

LabelName = Literal["blind", "saturated", "spurious", "agree"]
LABELS: tuple[LabelName, ...] = ("blind", "saturated", "spurious", "agree")


class Immutable(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
  """Base: immutable, and no field is skipped in reading."""


class Version(Immutable):
  """A criterion at one wording (H-41); its weight lives in the state.

  Attributes:
    cid: of its lineage, unique in the bank: "<task>#<number>".
    version: counts the wordings of a lineage, from 0.
    text: the statement.
    sign: of its weight, which never flips (H-43): 1, or -1 for a penalty.
    origin: how the lineage began.
    parents: lineages that it came from: sources of a merge, the split one, or
      the archived one that is restored.
    step: when this wording was made, -1 for the seed.
    checker: name of the exact checker that decides it, None if judged.
    arguments: of the checker.
  """

  cid: str
  version: int
  text: str
  sign: Literal[1, -1]
  origin: Literal["seed", "create", "split", "merge", "restore"]
  parents: tuple[str, ...] = ()
  step: int = -1
  checker: str | None = None
  arguments: Mapping[str, Any] = {}

  @property
  def target(self) -> Target:
    """Its name."""
    return self.cid, self.version


class Donor(Immutable):
  """Where a response of a reference field came from (H-40a).

  Attributes:
    group: id of the recorded group.
    rollout: place in that group.
    sign: whether it shows what to do or what not to do.
    task: id of the task that it answers.
    target: the criterion that it meets or fails.
    similarity: cosine of that criterion to the field's own target, None where
      they are the same.
  """

  group: str
  rollout: int
  sign: Literal["positive", "negative"]
  task: str
  target: Target
  similarity: float | None = None


class Field(Immutable):
  """A guidance field as it is mounted on a task (H-37).

  Attributes:
    kind: which of the three.
    targets: the criteria that it shall make reachable.
    text: what stands between its tags.
    donors: whose responses it shows.
    step: at which it was mounted.
  """

  kind: FieldKind
  targets: tuple[Target, ...]
  text: str
  donors: tuple[Donor, ...]
  step: int
