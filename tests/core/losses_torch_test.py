"""The loss against the same formulas in torch, one token at a time."""

import functools

import jax
import numpy as np
import pytest

from hrl_jax.core import token_terms
from tests.core import toy


def _reference_loss(torch, logits_BTV, batch, aggregation, objective):
  """H-24 read aloud, one token at a time."""
  _, tokens_BT, sampled = jax.tree.map(np.asarray, batch)
  lengths_B, group_B, valid_B = map(
    np.asarray, (toy.LENGTHS_B, toy.GROUP_B, toy.VALID_B)
  )
  gap_BT = sampled.old_logprobs_BT - sampled.sampler_logprobs_BT
  logprobs_BTV = torch.log_softmax(logits_BTV, dim=2)
  loss = torch.zeros((), dtype=torch.float64)
  for b in np.flatnonzero(valid_B):
    advantage, length = float(sampled.advantages_B1[b, 0]), int(lengths_B[b])
    members = int((valid_B & (group_B == group_B[b])).sum())
    share = (
      float(toy.IMPORTANCE_P[group_B[b]])
      * {
        "sequence_mean_token_mean": 1 / 3 / members / length,
        "sequence_mean_token_sum_norm": 1 / 3 / members / toy.MAX_TOKENS,
        "token_mean": 1 / int(lengths_B[valid_B].sum()),
      }[aggregation]
    )
    for t in range(length):
      logprob = logprobs_BTV[b, t, int(tokens_BT[b, t])]
      ratio = torch.exp(logprob - float(sampled.old_logprobs_BT[b, t]))
      low, high = 1 - objective.clip_low, 1 + objective.clip_high
      term = torch.minimum(
        ratio * advantage, torch.clamp(ratio, low, high) * advantage
      )
      if objective.dual_clip is not None and advantage < 0:
        term = torch.clamp(term, min=objective.dual_clip * advantage)
      if objective.correction is not None:
        kind, level, low, high = objective.correction
        gap = gap_BT[b, t] if level == "token" else gap_BT[b, :length].sum()
        weight = float(np.exp(gap))
        if kind == "tis":
          weight = min(weight, high)
        term = term * (weight if low <= weight <= high else 0.0)
      d = logprob - float(sampled.ref_logprobs_BT[b, t])
      kl = {"k1": d, "k2": d**2 / 2, "k3": torch.exp(-d) - 1 + d}
      term = term - objective.kl_coefficient * kl[objective.kl_estimator]
      row_V = logprobs_BTV[b, t]
      entropy = -(torch.exp(row_V) * row_V).sum()
      loss = loss - share * (term + objective.entropy_coefficient * entropy)
  return loss


@pytest.mark.parametrize(
  ("aggregation", "objective"),
  [
    ("sequence_mean_token_mean", toy.PLAIN),
    ("sequence_mean_token_mean", toy.FULL),
    ("sequence_mean_token_sum_norm", toy.FULL._replace(kl_estimator="k2")),
    ("token_mean", toy.FULL._replace(dual_clip=None, kl_estimator="k1")),
    (
      "token_mean",
      toy.FULL._replace(
        correction=token_terms.Correction("mis", "token", 0.95, 1.1)
      ),
    ),
    (
      "sequence_mean_token_mean",
      toy.FULL._replace(
        correction=token_terms.Correction("mis", "sequence", 0.9, 1.2)
      ),
    ),
    (
      "sequence_mean_token_mean",
      toy.FULL._replace(
        correction=token_terms.Correction("tis", "sequence", 0.0, 1.05)
      ),
    ),
  ],
)
def test_loss_and_gradient_match_torch(aggregation, objective):
  torch = pytest.importorskip("torch")
  batch = toy.batch(aggregation)
  (loss, _), gradient_BTV = jax.jit(
    functools.partial(toy.loss_and_gradient, objective=objective)
  )(*batch)
  logits_BTV = torch.tensor(
    np.asarray(batch[0]), dtype=torch.float64, requires_grad=True
  )
  expected = _reference_loss(torch, logits_BTV, batch, aggregation, objective)
  expected.backward()
  np.testing.assert_allclose(loss, expected.item(), rtol=1e-5)
  np.testing.assert_allclose(
    gradient_BTV, logits_BTV.grad.numpy(), rtol=1e-5, atol=1e-6
  )
