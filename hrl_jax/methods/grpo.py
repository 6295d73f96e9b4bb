"""GRPO on static rubrics: uniform draws, no guidance, seed rubrics (B-1).

See "DeepSeekMath" by Shao et al. (https://arxiv.org/abs/2402.03300). Draws are
with replacement, like those of the methods that reweight tasks: HarnessRL with
every interface off is this method, bit for bit.
"""

import jax
import numpy as np
from flax import struct

from hrl_jax import base, protocols
from hrl_jax.methods import drawing


@struct.dataclass
class State:
  """What the method knows between steps.

  Attributes:
    weights_N: `[N]` float64, unnormalised draw probabilities, all 1.
    bank: the tasks.
  """

  weights_N: np.ndarray
  bank: base.Bank = struct.field(pytree_node=False)


def make(size: drawing.Size) -> protocols.Method:
  """Binds the size of a step."""

  def init(bank: base.Bank) -> State:
    return State(weights_N=np.ones(len(bank.tasks)), bank=bank)

  def prepare(state: State, probe: protocols.Probe, key: jax.Array) -> State:
    del probe, key
    return state

  def plan(state: State, step: int, key: jax.Array) -> tuple[base.Plan, State]:
    del step

    def view(place: int) -> drawing.View:
      task = state.bank.tasks[place]
      return drawing.bare(task, task.rubric, size.group_size)

    return drawing.plan(key, state.weights_N, view, size), state

  def learn(
    state: State,
    step: int,
    evidence: base.Evidence,
    probe: protocols.Probe,
    key: jax.Array,
  ) -> protocols.Learnt:
    del step, evidence, probe, key
    return protocols.Learnt(state)

  return protocols.Method(init, prepare, plan, learn)
