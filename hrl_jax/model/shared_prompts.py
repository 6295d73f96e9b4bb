"""The layout of the update: each prompt once, its completions after it.

Tokens are flat, without padding: `[F, D]`, distinct prompts first, then the
completions in blocks that continue one prompt each. Projections, MLP and norms
never see a pad; queries meet keys in padded rows, prompt by prompt and block
by block, so that the scores of one at a time are in memory, and in cache.
Completions that are short share a padded row, a strip, and do not see each
other.
"""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from hrl_jax.model import attention


def layout(
  positions_F: Int[Array, " F"],
  prompt_tokens_UT: Int[Array, "U Tp"],
  completion_tokens_KRT: Int[Array, "K R Tc"],
  member_KRT: Int[Array, "K R Tc"],
  prompt_K: Int[Array, " K"],
  place_F: Int[Array, " F"],
) -> attention.Layout:
  """The layout for tokens `[F]`; `core.packing` makes its arrays.

  Args:
    positions_F: rotary positions.
    prompt_tokens_UT: for each place of the U prompt rows the index of its
      flat token, F where there is none.
    completion_tokens_KRT: likewise for the K blocks of R strips.
    member_KRT: which completion of its block stands at each place of a strip.
    prompt_K: the prompt row that each block continues.
    place_F: for each flat token its place among the rows, counting through
      the prompt rows and then the strips; past the end for padding.
  """
  source = jnp.concatenate(
    [prompt_tokens_UT.reshape(-1), completion_tokens_KRT.reshape(-1)]
  )
  prompt_mask_UT = prompt_tokens_UT < positions_F.shape[0]
  own_mask_KRT = completion_tokens_KRT < positions_F.shape[0]

  def unpack(x_FHD):
    padded = _permute(x_FHD.reshape(x_FHD.shape[0], -1), source, place_F)
    prompts, completions = jnp.split(padded, [prompt_tokens_UT.size])
    features = x_FHD.shape[1:]
    return (
      prompts.reshape(*prompt_tokens_UT.shape, *features),
      completions.reshape(*completion_tokens_KRT.shape, *features),
    )

  def attend(q, k, v):
    (q_UT, q_KRT), (k_UT, k_KRT), (v_UT, v_KRT) = map(unpack, (q, k, v))
    mixed_UT = _one_by_one(
      attention.causal_row, (q_UT, k_UT, v_UT, prompt_mask_UT)
    )
    mixed_KRT = _one_by_one(
      _block,
      (
        *(q_KRT, k_KRT, v_KRT, own_mask_KRT, member_KRT),
        *(part[prompt_K] for part in (k_UT, v_UT, prompt_mask_UT)),
      ),
    )
    features = q.shape[1] * q.shape[2]
    padded = jnp.concatenate(
      [mixed_UT.reshape(-1, features), mixed_KRT.reshape(-1, features)]
    )
    return _permute(padded, place_F, source).reshape(q.shape)

  return attention.Layout(positions_F, attend)


def _block(
  q_RTHD: Float[Array, "R T H head"],
  k_RTKD: Float[Array, "R T K head"],
  v_RTKD: Float[Array, "R T K head"],
  mask_RT: Bool[Array, "R T"],
  member_RT: Int[Array, "R T"],
  prompt_k_SKD: Float[Array, "S K head"],
  prompt_v_SKD: Float[Array, "S K head"],
  prompt_mask_S: Bool[Array, " S"],
) -> Float[Array, "R T H head"]:
  """Completions of one prompt over its keys and, causally, their own."""
  q = attention.heads_first(q_RTHD, k_RTKD.shape[2])
  k_KRTD, v_KRTD, k_KSD, v_KSD = (
    jnp.moveaxis(part, -2, 0)
    for part in (k_RTKD, v_RTKD, prompt_k_SKD, prompt_v_SKD)
  )
  causal_TT = attention.causal(mask_RT.shape[1])
  same_RTT = member_RT[:, :, None] == member_RT[:, None, :]
  own_mask = same_RTT & causal_TT[None] & mask_RT[:, None, :]
  own_mask = own_mask[None, :, :, None, :]
  prompt_mask = prompt_mask_S[None, None, None, None]
  shared, own = attention.softmax(
    [
      attention.scores("krtgd,ksd->krtgs", q, k_KSD, prompt_mask),
      attention.scores("krtgd,krsd->krtgs", q, k_KRTD, own_mask),
    ],
    v_RTKD.dtype,
  )
  mixed = jnp.einsum("krtgs,ksd->krtgd", shared, v_KSD)
  mixed += jnp.einsum("krtgs,krsd->krtgd", own, v_KRTD)
  return jnp.moveaxis(mixed, 0, 2).reshape(q_RTHD.shape)


def _one_by_one(function, arrays):
  """Maps over the leading axis; the backward pass makes the scores again."""
  checkpointed = jax.checkpoint(function, prevent_cse=False)
  return jax.lax.map(lambda parts: checkpointed(*parts), arrays)


@jax.custom_vjp
def _permute(
  x_FD: Float[Array, "F D"],
  source_S: Int[Array, " S"],
  place_F: Int[Array, " F"],
) -> Float[Array, "S D"]:
  """Takes row `source[s]` of x for each s, and zeros where there is none.

  Each row is taken at most once, and stands at `place` then: so the gradient
  is the same gather the other way round, and not a scatter.
  """
  return x_FD.at[source_S].get(mode="fill", fill_value=0)


def _permute_forward(x_FD, source_S, place_F):
  return _permute(x_FD, source_S, place_F), (source_S, place_F)


def _permute_backward(residuals, gradient_SD):
  source_S, place_F = residuals
  return _permute(gradient_SD, place_F, source_S), None, None


_permute.defvjp(_permute_forward, _permute_backward)
