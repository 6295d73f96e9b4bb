import pytest

from hrl_jax.evaluation import trace
from hrl_jax.harness import changes, records
from tests.methods.harnessrl import world


@pytest.fixture(scope="module")
def run():
  made = world.run(pool=("Has e.", "Has f."))
  made.last = made.whole(6)
  return made


def moments(run, task):
  return trace.moments(run.tasks, run.memory.log, task)


def test_every_draw_and_every_decision_of_a_task_is_told(run):
  for task in ("t0", "t1"):
    found = moments(run, task)
    of_task = [r for r in run.memory.log if is_of(r, task)]
    steps = {r.step for r in of_task if isinstance(r, records.Group)}
    assert {moment.step for moment in found} >= steps
    text = "\n".join(trace.lines(found))
    updates = [r for r in of_task if isinstance(r, changes.Update)]
    assert text.count(", round ") == len(updates)
    for label in {
      label.name
      for r in of_task
      if isinstance(r, records.Labels)
      for label in r.labels
    } - {"agree"}:
      assert f"is {label} (" in text


def is_of(record, task):
  if isinstance(record, changes.Update):
    return record.candidate.task == task
  return getattr(record, "task", None) == task


def test_the_story_ends_where_the_state_is(run):
  for place, task in enumerate(run.tasks.tasks):
    state = world.task(run.last, place)
    last = moments(run, task.id)[-1]
    assert last.level == state.level
    assert set(last.fields) == set(state.fields)


def test_a_rubric_change_is_told_as_a_diff(run):
  # What the world's stand-in does to the rubric of a task, in its first change.
  update = next(
    record
    for record in run.memory.log
    if isinstance(record, changes.Update)
    and record.candidate.interface == "rubric"
    and record.decision.is_accepted
  )
  assert [version.text for version in update.made] == ["Has e.", "Has f."]
  (task,) = [t for t in run.tasks.tasks if t.id == update.candidate.task]
  gone = task.rubric[0]
  lines = list(trace.lines(moments(run, task.id)))
  assert f"- +{gone.weight:g} {gone.text}" in "\n".join(lines)
  assert sum(line.lstrip().startswith("+ +") for line in lines) == 2


def test_the_story_is_drawn(run, tmp_path):
  trace.plot(moments(run, "t0"), "t0", tmp_path / "trace.png")
  assert (tmp_path / "trace.png").stat().st_size > 5_000


def test_an_unknown_task_is_named_with_some_that_are_there(run):
  with pytest.raises(ValueError, match=r"no task 'zz'. It has 6, such as t0"):
    moments(run, "zz")
