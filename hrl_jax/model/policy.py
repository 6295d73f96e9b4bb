"""Log-probabilities of a batch's completions, in either of its forms."""

import jax.numpy as jnp
from jaxtyping import Array, Float

from hrl_jax import batch
from hrl_jax.model import attention, decoder, shared_prompts, specification
from kernels.linear_logprobs import linear_logprobs


def row_logprobs(
  config: specification.DecoderConfig,
  params: decoder.Params,
  layout: batch.OneRow | batch.SharedPrompts,
  *,
  temperature: float,
  head_chunk: int,
  remat: str,
) -> tuple[Float[Array, "B T"], Float[Array, "B T"]]:
  """Log-probability and entropy of each completion token of a micro-batch.

  Both are over the full vocabulary at the sampling temperature (H-26).

  Args:
    config: sizes of the network.
    params: its parameters.
    layout: one micro-batch, without the leading M axis.
    temperature: that the completions were sampled at.
    head_chunk: tokens whose logits are in memory at a time.
    remat: what the backward pass keeps, see `decoder.REMAT_POLICIES`.

  Returns:
    `(logprobs_BT, entropies_BT)` in nats, float32; 0 off the completion mask
    in the shared form, arbitrary there in the one-row form.
  """
  form = (
    _shared_prompts if isinstance(layout, batch.SharedPrompts) else _one_row
  )
  predictors_CD, targets_C, restore = form(config, params, layout, remat)
  results = linear_logprobs(
    predictors_CD,
    decoder.head_weight(params),
    targets_C,
    temperature=temperature,
    chunk=head_chunk,
  )
  logprobs_BT, entropies_BT = map(restore, results)
  return logprobs_BT, entropies_BT


def _shared_prompts(config, params, layout, remat):
  shared = shared_prompts.layout(
    layout.positions_MF,
    layout.prompt_tokens_MUT,
    layout.completion_tokens_MKRT,
    layout.member_MKRT,
    layout.prompt_MK,
    layout.place_MF,
  )
  hidden_FD = decoder.hidden(
    config, params, layout.tokens_MF, shared, remat=remat
  )

  def restore(values_C):
    return values_C.at[layout.predicted_MBT].get(mode="fill", fill_value=0)

  return hidden_FD[layout.predictor_MC], layout.target_MC, restore


def _one_row(config, params, layout, remat):
  tokens_BT = jnp.concatenate(
    [layout.prompts_MBT, layout.completions_MBT], axis=1
  )
  mask_BT = jnp.concatenate(
    [layout.prompt_mask_MBT, layout.completion_mask_MBT], axis=1
  )
  hidden_BTD = decoder.hidden(
    config, params, tokens_BT, attention.rows(mask_BT), remat=remat
  )
  shape = layout.completions_MBT.shape
  predictors_BTD = hidden_BTD[:, -shape[1] - 1 : -1]

  def restore(values_C):
    return values_C.reshape(shape)

  return (
    predictors_BTD.reshape(-1, hidden_BTD.shape[-1]),
    layout.completions_MBT.reshape(-1),
    restore,
  )
