"""A small case of every kind of criterion, as the evolver's roles see it.

The task has six rollouts and seven criteria, of which c4 is a penalty and c5 an
anchor:

  c1 blind   c2 spurious   c3 full and generic   c4 separates, a penalty
  c5 full, an anchor       c6 blind   c7 separates
"""

from hrl_jax import base
from hrl_jax.harness import cases, changes, records, terms

TASK = "cell/7"
PROMPT = (
  base.Message("system", "Be brief."),
  base.Message("user", "Why does filter paper wick water?"),
)


def target(number, version=0):
  return (f"{TASK}#{number - 1}", version)


def met(pattern):
  return tuple({"1": True, "0": False, "?": None}[each] for each in pattern)


def view(number, text, raw, pattern, label, reason, *, is_anchor=False):
  return cases.CriterionView(
    target(number),
    text,
    10.0 * raw,
    raw,
    is_anchor,
    met(pattern),
    label,
    reason,
  )


CRITERIA = (
  view(1, "names the hydroxyl groups", 2.0, "000?00", "blind", "never_met"),
  view(2, "is detailed", 3.0, "110?10", "agree", "separates"),
  view(3, "closes politely", 1.0, "111?11", "saturated", "full"),
  view(4, "insults the reader", -1.0, "100?01", "agree", "separates"),
  view(5, "is about paper", 2.0, "111?11", "agree", "not_yet", is_anchor=True),
  view(6, "explains capillarity", 3.0, "000?00", "blind", "never_met"),
  view(7, "gives an example", 1.0, "010?10", "agree", "separates"),
)
RESPONSES = (
  "In great detail. Fool!",
  "In great detail. A sponge, for one.",
  "Paper drinks.",
  "",
  "In great detail. A wick, say.",
  "Paper drinks, you fool.",
)
RELATED = cases.RelatedView(
  to=target(2),
  target=("wool/1#4", 2),
  text="gives the steps",
  similarity=0.874,
  passes=(3, 8),
  labels=("blind", "agree"),
  positive="First comb, then spin.",
  negative="Wool is warm.",
  updates=("step 4: rewrite, +5.0 points, accepted",),
)
CASE = cases.Case(
  step=12,
  task=TASK,
  prompt=PROMPT,
  criteria=CRITERIA,
  responses=RESPONSES,
  rewards=(50.0, 70.0, 30.0, None, 70.0, 20.0),
  history=("step 0: 40.0 points", "step 5: create, +4.0 points, rejected"),
  related=(RELATED,),
)


def label(number, name, reason, **others):
  fields = {
    "target": target(number),
    "name": name,
    "reason": reason,
    "route": None,
    "is_generic": False,
    "wording": None,
    "quotes": (),
    "confidence": 0.5,
    "persistence": 1,
    "evidence": (),
  }
  return records.Label(**{**fields, **others})


LABELS = (
  label(1, "blind", "never_met", route="rollout", evidence=("g-0", "g-5")),
  label(
    2,
    "spurious",
    "superficial_compliance",
    route="rubric",
    wording="detailed",
    quotes=(
      records.Quote(0, "In great detail."),
      records.Quote(1, "In great\ndetail."),
    ),
    confidence=0.8,
    persistence=2,
  ),
  label(3, "saturated", "full", is_generic=True, evidence=("g-5",)),
  label(4, "agree", "separates"),
  label(5, "agree", "not_yet"),
  label(6, "blind", "never_met", route="rollout"),
  label(7, "agree", "separates"),
)
FIELD = terms.Field("critique", (target(3),), "It lacked a close.", (), 9)
ARCHIVED = terms.Version(f"{TASK}#9", 1, "names a reaction", 1, "seed", step=3)


def donation(sign, text, about=None):
  donor = terms.Donor("g-0", 1, sign, TASK, target(6), None)
  return cases.Donation(donor, text, about)


PROPOSAL_CASE = cases.ProposalCase(
  case=CASE,
  labels=LABELS,
  is_saturated=True,
  level=1,
  fields={"critique": FIELD},
  cap=2,
  donations={
    target(1): (),
    target(6): (
      donation("positive", "Water climbs the pores.", "why towels dry"),
      donation("negative", "It is magic."),
    ),
  },
  archive=(ARCHIVED,),
  interfaces=terms.INTERFACES,
  lowest=1.0,
  highest=3.0,
  most=20,
  writes=True,
)


def rejection(operations, interface):
  candidate = changes.Candidate(
    id=f"u-{interface}",
    step=12,
    task=TASK,
    interface=interface,
    operations=operations,
    is_primary=True,
    round=0,
    rubric_version=0,
    potential=50.0,
    is_grounded=True,
    evidence=(),
    rationale="",
    author="rules",
  )
  measurement = changes.Measurement(
    "ok", "regraded", before=48.0, after=49.5, delta=1.5, valid=5
  )
  decision = changes.Decision(False, "below", 3.1, 28.0)
  return cases.Rejection(candidate, measurement, decision)


REJECTED = (
  changes.Rewrite(cid=f"{TASK}#1", text="explains each step"),
  changes.Reweight(cid=f"{TASK}#4", weight=1.0),
)
SECOND_ROUND = PROPOSAL_CASE._replace(
  rejections=(rejection(REJECTED, "rubric"),)
)
