import pytest

from hrl_jax.metrics import losses

pytestmark = pytest.mark.core


def step(missing=0, thin=0):
  return {
    "rollouts": 50,
    "missing_rollouts": missing,
    "groups": 10,
    "thin_groups": thin,
  }


def test_counts_add_up_over_steps():
  counts = losses.total([step(missing=2), step(thin=1), step()])
  assert counts == losses.Losses(150, 2, 30, 1)


def test_one_in_a_hundred_is_not_too_much_and_more_is():
  assert losses.total([step(missing=1), step()]).excess() is None
  assert "2 of 100 rollouts" in losses.total([step(2), step()]).excess()
  assert "1 of 20 groups" in losses.total([step(thin=1), step()]).excess()


def test_a_run_without_steps_lost_nothing():
  assert losses.total([]).excess() is None


def test_the_alarm_sounds_at_steps_that_lose(caplog):
  alarm = losses.Alarm(losses.total([step()]))
  alarm.step(step(missing=1))  # 1 of 100.
  assert not caplog.records
  alarm.step(step(missing=1))  # 2 of 150.
  assert "2 of 150 rollouts have no reward" in caplog.text
  caplog.clear()
  alarm.step(step())
  assert not caplog.records


def test_a_resumed_run_goes_on_counting(caplog):
  losses.Alarm(losses.total([step(missing=1)])).step(step(missing=1))
  assert "2 of 100" in caplog.text
