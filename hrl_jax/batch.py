"""The arrays of one optimiser step, as the loss and the network read them.

A batch is made on the host by `core.packing` and read in the jitted update.
Every field has a leading axis of M micro-batches; a jitted function sees one
micro-batch at a time, without it. Letters as in `hrl_jax.base`.
"""

from typing import NamedTuple

from jax.typing import ArrayLike


class Rows(NamedTuple):
  """What the loss needs of the B rows.

  Attributes:
    mask_MBT: True on completion tokens.
    sampler_logprobs_MBT: what the engine reported, 0 off the mask.
    rollout_MB: index p * G + g of the row's rollout; 0 in a row of padding.
  """

  mask_MBT: ArrayLike
  sampler_logprobs_MBT: ArrayLike
  rollout_MB: ArrayLike


class OneRow(NamedTuple):
  """The reference form: each rollout is a padded row of its own.

  Attributes:
    prompts_MBT: prompt ids, right-aligned.
    prompt_mask_MBT: True on real prompt tokens.
    completions_MBT: completion ids, left-aligned.
    completion_mask_MBT: True on real completion tokens.
  """

  prompts_MBT: ArrayLike
  prompt_mask_MBT: ArrayLike
  completions_MBT: ArrayLike
  completion_mask_MBT: ArrayLike


class SharedPrompts(NamedTuple):
  """Flat tokens without padding; see `model.shared_prompts`.

  Attributes:
    tokens_MF: ids, prompts first, then completions.
    positions_MF: rotary positions.
    prompt_tokens_MUT: flat index of each place of the prompt rows, F for none.
    completion_tokens_MKRT: likewise for K blocks of R strips, each of which
      holds one completion or several short ones.
    member_MKRT: which completion of its block stands at each place; 0 where
      there is no token.
    prompt_MK: prompt row of each block.
    place_MF: place of each flat token among prompt rows, then strips; past the
      end: padding.
    predictor_MC: flat index of the token before each completion token.
    target_MC: the id that it predicts.
    predicted_MBT: index into the C predictions of each place of the rows.
  """

  tokens_MF: ArrayLike
  positions_MF: ArrayLike
  prompt_tokens_MUT: ArrayLike
  completion_tokens_MKRT: ArrayLike
  member_MKRT: ArrayLike
  prompt_MK: ArrayLike
  place_MF: ArrayLike
  predictor_MC: ArrayLike
  target_MC: ArrayLike
  predicted_MBT: ArrayLike


class Batch(NamedTuple):
  """One optimiser step's rows, and how the network reads them.

  Attributes:
    rows: what the loss needs.
    layout: what the network needs, in one of the two forms.
    num_groups: the divisor P of the loss: groups that the batch stands for,
      those without any row included (H-24).
  """

  rows: Rows
  layout: OneRow | SharedPrompts
  num_groups: ArrayLike
