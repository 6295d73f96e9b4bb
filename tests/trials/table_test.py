import matplotlib.figure
import ml_collections
import numpy as np
import pytest

from hrl_jax.trials import arms, figures, table

NAMED = {"named_covered": 0.5, "named_neglected": 0.3, "named_unknown": 0.1}


def result(arm, world, seed, quality, steps=10, **numbers):
  return {
    "arm": arm,
    "world": world,
    "seed": seed,
    "reversals": [],
    "sentences": {"refinements_measured": 4, "refinements_accepted": 1},
    "evaluations": [
      {"step": 0, "quality": 0.1, "score": 0.2} | NAMED,
      {"step": steps, "quality": quality, "score": quality} | NAMED,
    ],
    "steps": [
      {"step": step, "reward": 0.1 * step, "rollouts": 8, "gradings": 80}
      | {name: value for name, value in numbers.items()}
      for step in range(steps)
    ],
  }


RESULTS = [
  result("grpo", 0, 0, 0.5),
  result("grpo", 1, 0, 0.3),
  result("harnessrl", 0, 0, 0.6, rollouts=10, gradings=100),
  result("harnessrl", 1, 0, 0.5, rollouts=10, gradings=100),
]
QUALITY = table.MEASURES[0]


def test_differences_are_between_runs_of_the_same_world_and_seed():
  made = table.cells(RESULTS, QUALITY, "grpo")
  assert made["grpo"].mean == pytest.approx(40.0)
  assert made["grpo"].difference is None
  # World 0: 60 - 50 = 10, world 1: 50 - 30 = 20; means of resampled worlds lie
  # between them.
  difference = made["harnessrl"].difference
  assert difference.mean == pytest.approx(15.0)
  assert (difference.low, difference.high) == pytest.approx((10.0, 20.0))


def test_an_arm_has_its_colour_where_another_has_no_line():
  axes = matplotlib.figure.Figure().subplots(1, 2)
  runs = [result("grpo", 0, 0, 0.5), result("harnessrl", 0, 0, 0.5, fields=1)]
  for axis, name in zip(axes, ("reward", "fields"), strict=True):
    figures.lines(axis, runs, figures.over_steps(name))
  drawn = [
    {line.get_label(): line.get_color() for line in axis.lines} for axis in axes
  ]
  assert drawn[0].keys() == {"grpo", "harnessrl"}
  assert drawn[0]["grpo"] != drawn[0]["harnessrl"]
  assert drawn[1] == {"harnessrl": drawn[0]["harnessrl"]}


def test_times_are_those_of_the_median_step():
  made = [
    result("grpo", 0, 0, 0.5, steps=3, seconds_collect=0.25),
    result("grpo", 0, 1, 0.5, steps=4, seconds_collect=0.5),
  ]
  made[0]["steps"][0]["learn/propose_s"] = 0.125
  (told,) = table.times(made)
  assert told.startswith("grpo, seconds")
  assert "collect 0.500" in told and "learn/propose_s 0.125" in told


def test_what_was_not_measured_has_no_rate():
  (one, *_) = RESULTS
  assert table.accepted("refinements")(one) == 0.25
  assert np.isnan(table.accepted("decoys")(one))


def test_the_best_checkpoint_is_that_of_the_mean_over_seeds():
  def run(seed, *qualities):
    made = result("grpo", 0, seed, 0.0)
    return made | {"evaluations": [{"quality": q} for q in qualities]}

  # Means 0.35, 0.4 and 0.3: the second, though seed 1 was best at first.
  made = table.with_best([run(0, 0.1, 0.5, 0.3), run(1, 0.6, 0.3, 0.3)])
  assert [each["best_quality"] for each in made] == [0.5, 0.3]


def test_a_run_without_its_pair_is_left_out_of_the_difference():
  lonely = result("harnessrl", 2, 0, 9.9)
  made = table.cells([*RESULTS, lonely], QUALITY, "grpo")
  assert made["harnessrl"].difference.mean == pytest.approx(15.0)


def test_a_window_is_the_mean_over_the_last_steps():
  # Of ten steps the last fifth: rewards 0.8 and 0.9.
  assert table.window("reward")(RESULTS[0]) == pytest.approx(0.85)
  assert np.isnan(table.window("harness/mounted")(RESULTS[0]))


def test_reversals_are_a_share_of_all_accepted_updates():
  windows = [{"accepted": 3, "reversed": 1}, {"accepted": 1, "reversed": 0}]
  assert table.reversal_rate({"reversals": windows}) == 0.25
  assert np.isnan(table.reversal_rate({"reversals": []}))


def test_costs_are_relative_to_the_baseline():
  # (10 + 100) / (8 + 80) = 1.25.
  assert list(table.costs(RESULTS)) == [
    "grpo: 1.00 of the rollouts, 1.00 of the gradings, 1.00 of both",
    "harnessrl: 1.25 of the rollouts, 1.25 of the gradings, 1.25 of both",
  ]


def test_the_table_names_every_arm_and_marks_what_excludes_zero():
  text = "\n".join(table.lines(RESULTS))
  assert "grpo" in text and "harnessrl" in text
  (line,) = [
    each
    for each in text.splitlines()
    if each.strip().startswith("harnessrl") and "quality" in each
  ]
  assert "+15.00 [+10.00, +20.00] *" in line


def test_curves_are_drawn(tmp_path):
  path = tmp_path / "figures" / "curves.png"
  figures.draw(RESULTS, path)
  assert path.stat().st_size > 10_000


def test_an_unknown_arm_is_refused():
  with pytest.raises(ValueError, match="There is no arm 'x'"):
    arms.configured(ml_collections.ConfigDict(), "x")
