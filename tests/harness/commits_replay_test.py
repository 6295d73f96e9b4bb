import dataclasses

import hypothesis
import numpy as np
import pytest

from hrl_jax.harness import changes, commits, records, rubrics, terms
from hrl_jax.harness import state as states
from tests.harness import drawn, makes

pytestmark = pytest.mark.core

BAND = records.Band(10.2, 28.0, 200, 9.0, 11.0)


def _frozen(state):
  """Everything that a state holds, bit for bit."""
  arrays = {
    field.name: (value.dtype, value.shape, value.tobytes())
    for field in dataclasses.fields(state)
    if isinstance(value := getattr(state, field.name), np.ndarray)
  }
  texts = list(state.versions), list(state.fields)
  return arrays, texts, state.version, state.bank, state.places


def _next(random, state, step):
  """A record of the log that may come next."""
  place = random.randrange(len(state.bank.tasks))
  task, name = states.task(state, place), state.bank.tasks[place].id
  about = {"task": name, "step": step, "is_accepted": random.random() < 0.8}
  mounted = [*task.fields]
  match random.choice(("rubric", "rubric", "lower", "add", "drop", "remove")):
    case "rubric":
      words = f"{name} {step}"
      proposed = drawn.operations(random, task.rubric, words)
      if proposed:
        return makes.update(*proposed, **about)
    case "lower" if task.level < 3:
      return makes.update(changes.Lower(), mass=random.random(), **about)
    case "drop" if mounted:
      return makes.update(changes.Drop(random.choice(mounted)), **about)
    case "remove" if mounted:
      code = random.choice(["cap", "orphan"])
      return changes.Removal(step, name, random.choice(mounted), code)
    case "add":
      kind = random.choice(terms.FIELD_KINDS)
      target = random.choice(task.rubric.entries).version.target
      add = changes.Add(kind, (target,), f"do {step}")
      drops = [changes.Drop(kind)] if kind in mounted else []
      return makes.update(add, *drops, **about)
  return makes.group({makes.target(0): "10"}, task=name, step=step)


def _bank(random):
  return makes.bank(
    *(makes.seed_task(*drawn.weights(random), id=name) for name in "ab")
  )


def _calibration(random, bank):
  anchors = {
    task.id: tuple(
      f"{task.id}#{number}"
      for number in drawn.anchors(random, [c.weight for c in task.rubric])
    )
    for task in bank.tasks
  }
  levels, masses = (1.0, 0.61, 0.38, 0.17), {"a": random.random()}
  return records.Calibration(levels, BAND, BAND, anchors, masses)


@hypothesis.settings(max_examples=60)
@hypothesis.given(drawn.RANDOMS)
def test_replaying_the_log_is_the_live_state_to_the_bit(random):
  bank = _bank(random)
  state, log = states.init(bank), [records.Header(bank.hash)]
  if random.random() < 0.7:
    log.append(_calibration(random, bank))
  state = commits.commit(state, log)
  seen = [(state, _frozen(state))]
  for step in range(random.randint(1, 15)):
    batch, ahead = [], state
    for _ in range(random.randrange(3)):
      batch.append(_next(random, ahead, step))
      ahead = commits.commit(ahead, batch[-1:])
    # As one commit of the step, not record by record.
    state = commits.commit(state, batch)
    assert _frozen(state) == _frozen(ahead)
    log += batch
    seen.append((state, _frozen(state)))
  written = [records.decode(records.encode(record)) for record in log]
  assert _frozen(commits.replay(bank, written)) == _frozen(state)
  # And no commit has changed a state that was there before.
  for before, frozen in seen:
    assert _frozen(before) == frozen


@hypothesis.settings(max_examples=30)
@hypothesis.given(drawn.RANDOMS)
def test_every_rubric_of_a_random_run_keeps_its_shares(random):
  bank = _bank(random)
  state = commits.replay(bank, [_calibration(random, bank)])
  seeds = [states.rubric(state, place) for place in range(2)]
  for step in range(random.randint(1, 15)):
    state = commits.commit(state, [_next(random, state, step)])
  for place, seed in enumerate(seeds):
    rubric = states.rubric(state, place)
    pairs = zip(rubric.entries, rubric.weights(), strict=True)
    shares = rubrics.positive_sums(
      [entry._replace(raw=weight) for entry, weight in pairs]
    )
    assert shares.anchored == pytest.approx(seed.anchored, rel=1e-9)
    assert shares.free == pytest.approx(seed.free, rel=1e-9)
    assert rubric.kappa == seed.kappa
