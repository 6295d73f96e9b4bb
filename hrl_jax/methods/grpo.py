"""GRPO on static rubrics: uniform draws, no guidance, seed rubrics (B-1).

See "DeepSeekMath" by Shao et al. (https://arxiv.org/abs/2402.03300). Draws are
with replacement, like those of the methods that reweight tasks: HarnessRL with
every interface off is this method, bit for bit.
"""

import jax
import numpy as np
from flax import struct

from hrl_jax import base, protocols
from hrl_jax.core import task_sampling


@struct.dataclass
class State:
  """What the method knows between steps.

  Attributes:
    weights_N: `[N]` float64, unnormalised draw probabilities, all 1.
    bank: the tasks.
  """

  weights_N: np.ndarray
  bank: base.Bank = struct.field(pytree_node=False)


def make(
  *, num_groups: int, group_size: int, drop_constant: bool, max_rounds: int
) -> protocols.Method:
  """Binds the size of a step.

  Args:
    num_groups: P, groups in a batch.
    group_size: G, rollouts of a group.
    drop_constant: whether groups without contrast are replaced (B-2).
    max_rounds: rounds of generation after which a batch stays short; the plan
      holds enough slots for all of them.

  Returns:
    The method.
  """

  def init(bank: base.Bank) -> State:
    return State(weights_N=np.ones(len(bank.tasks)), bank=bank)

  def prepare(state: State, probe: protocols.Probe, key: jax.Array) -> State:
    del probe, key
    return state

  def plan(state: State, step: int, key: jax.Array) -> tuple[base.Plan, State]:
    del step
    count = num_groups * (max_rounds if drop_constant else 1)
    tasks = task_sampling.draw(key, state.weights_N, count)
    importance_N = task_sampling.importance_weights(state.weights_N)
    distinct = list(dict.fromkeys(int(task) for task in tasks))
    slots = []
    for task in tasks:
      prompt = distinct.index(int(task))
      slots.append(
        base.Slot(
          task=int(task),
          bare=prompt,
          importance=float(importance_N[task]),
          rubric=state.bank.tasks[task].rubric,
          sampled_under=(prompt,) * group_size,
          trained_under=(prompt,) * group_size,
        )
      )
    prompts = tuple(state.bank.tasks[task].prompt for task in distinct)
    return (
      base.Plan(
        prompts=prompts,
        slots=tuple(slots),
        num_groups=num_groups,
        drop_constant=drop_constant,
        max_rounds=max_rounds if drop_constant else 1,
      ),
      state,
    )

  def learn(
    state: State,
    step: int,
    evidence: base.Evidence,
    probe: protocols.Probe,
    key: jax.Array,
  ) -> tuple[State, dict[str, float]]:
    del step, evidence, probe, key
    return state, {}

  return protocols.Method(init, prepare, plan, learn)
