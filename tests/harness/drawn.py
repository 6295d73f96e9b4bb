"""Random rubrics, and operations that may be applied to them."""

from hypothesis import strategies as st

from hrl_jax.harness import changes, terms, validity
from tests.harness import makes

# Truly random, of which hypothesis chooses the seed: its own way to draw makes
# most choices the first of several.
RANDOMS = st.randoms(use_true_random=True)

ARCHIVED = {
  "t#90": terms.Version("t#90", 0, "was good", 1, "create"),
  "t#91": terms.Version("t#91", 2, "was bad", -1, "seed"),
}


def weights(random):
  """Weights of a seed rubric, of which at least one is positive."""
  sizes = [
    random.choice([float(random.randint(1, 5)), random.uniform(0.5, 10)])
    for _ in range(random.randint(1, 8))
  ]
  signs = [random.choice([1, 1, 1, -1]) for _ in sizes]
  signs[random.randrange(len(sizes))] = 1
  return tuple(sign * size for sign, size in zip(signs, sizes, strict=True))


def anchors(random, of):
  """Numbers of positive criteria that leave another one (H-44)."""
  positive = [number for number, weight in enumerate(of) if weight > 0]
  return tuple(random.sample(positive, random.randrange(len(positive))))


def rubric(random):
  of = weights(random)
  return makes.rubric(*of, anchors=anchors(random, of))


def operations(random, of, words="new"):
  """Operations that may be applied together; their words are all new."""
  result = ()
  for number in range(random.randint(1, 8)):
    operation = _operation(random, of, f"{words} {number}")
    if problem(of, (*result, operation)) is None:
      result = (*result, operation)
  return result


def problem(of, proposed):
  return validity.problem(
    of,
    proposed,
    rubric_version=of.version,
    archived=ARCHIVED,
    limits=makes.limits(),
  )


def _operation(random, of, text):
  entry = random.choice(of.entries)
  cid, sign = entry.version.cid, entry.version.sign
  size = random.choice(
    [of.lowest, of.highest, random.uniform(of.lowest, of.highest)]
  )
  match random.randrange(7):
    case 0:
      return changes.Create(text, random.choice([1, -1]) * size)
    case 1:
      old = random.choice([*ARCHIVED.values()])
      return changes.Create(old.text, old.sign * size, old.cid)
    case 2:
      return changes.Rewrite(cid, text)
    case 3:
      return changes.Delete(cid)
    case 4:
      return changes.Reweight(cid, sign * size)
    case 5:
      others = [e.version.cid for e in of.entries if e.version.sign == sign]
      chosen = random.sample(others, min(2, len(others)))
      return changes.Merge(tuple(dict.fromkeys([cid, *chosen])), text)
  count = random.randint(2, 3)
  texts = tuple(f"{text} part {part}" for part in range(count))
  rest = (entry.raw - sign * size) / (count - 1)
  parts = (sign * size, *[rest] * (count - 1))
  return changes.Split(cid, texts, random.choice([None, parts]))
