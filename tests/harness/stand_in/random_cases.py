"""Random cases of a proposer, of which little is likely and all may be."""

from hrl_jax import base
from hrl_jax.harness import cases, changes, terms
from tests.harness import makes

_SENTENCES = (
  "Great question!",
  "great QUESTION",
  "I hope this helps.",
  "\u0130\u0130 certainly, of course",
  "Water climbs the pores.",
  "Paper drinks.",
)
_POOL = tuple(f"names pore {number}" for number in range(5))
_REASONS = {
  "blind": ("never_met",),
  "saturated": ("full",),
  "spurious": ("length_gaming",),
  "agree": ("separates", "unsupported", "noise", "not_yet"),
}


def case(random):
  """What the attributor is shown."""
  count = random.randint(2, 8)
  return cases.Case(
    step=random.randrange(50),
    task=makes.TASK,
    prompt=(base.Message("user", "Why?"),),
    criteria=tuple(
      _view(random, number, count) for number in range(random.randint(1, 6))
    ),
    responses=tuple(
      " ".join(random.choices(_SENTENCES, k=random.randrange(5)))
      for _ in range(count)
    ),
    rewards=tuple(random.choice([None, 0.0, 50.0]) for _ in range(count)),
    history=(),
    related=(),
  )


def _view(random, number, count):
  name = random.choice([*_REASONS])
  raw = float(random.choice([-2, -1, 1, 2, 3]))
  return cases.CriterionView(
    target=makes.target(number, random.randrange(2)),
    text=random.choice([f"has {number}.", "names pore 0", "is a great answer"]),
    points=10 * raw,
    raw=raw,
    is_anchor=raw > 0 and random.random() < 0.3,
    met=tuple(random.choice([True, False, None]) for _ in range(count)),
    label=name,
    reason=random.choice(_REASONS[name]),
  )


def proposal_case(random):
  """What the proposer is shown, in its first round or its second one."""
  shown = case(random)
  targets = [view.target for view in shown.criteria]
  interfaces = tuple(each for each in terms.INTERFACES if random.random() < 0.8)
  rejections = ()
  if interfaces and random.random() < 0.5:
    rejections = tuple(_rejection(random, targets, each) for each in interfaces)
  kinds = random.sample(terms.FIELD_KINDS, random.randrange(4))
  return cases.ProposalCase(
    case=shown,
    labels=tuple(
      makes.label(
        view.target,
        view.label,
        view.reason,
        confidence=random.random(),
        is_generic=view.label == "saturated" and random.random() < 0.5,
      )
      for view in shown.criteria
    ),
    is_saturated=random.random() < 0.5,
    level=random.randrange(4),
    fields={
      kind: makes.field(kind, random.choice([*targets, makes.target(9)]))
      for kind in kinds
    },
    cap=random.randrange(4),
    donations={
      target: _donations(random, target)
      for target in targets
      if random.random() < 0.5
    },
    archive=(terms.Version("t#8", 1, "was good", 1, "seed"),),
    interfaces=interfaces,
    lowest=1.0,
    highest=3.0,
    most=20,
    writes=random.random() < 0.8,
    updates=tuple(
      _update(random, targets, step) for step in range(random.randrange(4))
    ),
    rejections=rejections,
    pool=tuple(random.sample(_POOL, random.randrange(6))),
  )


def _donations(random, target):
  return tuple(
    cases.Donation(
      terms.Donor("g", 0, random.choice(["positive", "negative"]), "t", target),
      "Pores.",
      None,
    )
    for _ in range(random.randrange(3))
  )


def _operations(random, targets, interface):
  target = random.choice(targets)
  words = random.choice(_POOL)
  match interface:
    case "sampling":
      return (changes.Lower(),)
    case "rollout":
      kind = random.choice(terms.FIELD_KINDS)
      return (changes.Add(kind, (target,), words),)
  return (
    random.choice(
      [
        changes.Rewrite(target[0], words),
        changes.Create(words, 2.0),
        changes.Merge((target[0], "t#9"), words),
        changes.Split(target[0], (words, "another")),
        changes.Reweight(target[0], 2.0),
      ]
    ),
  )


def _update(random, targets, step):
  proposed = _operations(random, targets, random.choice(terms.INTERFACES))
  return makes.update(*proposed, step=step, is_accepted=random.random() < 0.5)


def _rejection(random, targets, interface):
  update = makes.update(*_operations(random, targets, interface), step=50)
  decision = changes.Decision(False, random.choice(["above", *["below"] * 4]))
  return cases.Rejection(update.candidate, update.measurement, decision)
