"""What is quoted has to be there (H-62, H-63)."""

from collections.abc import Sequence

from hrl_jax.harness import cases, records


def unsupported(
  suspicion: cases.Suspicion,
  view: cases.CriterionView,
  responses: Sequence[str],
) -> str:
  """Why a suspicion is not believed, empty if it is.

  It needs quotes, word for word, of two satisfying rollouts, or of the only
  one, and of none that fails.
  """
  if trouble := misquoted(suspicion.quotes, responses):
    return trouble
  satisfying = {i for i, met in enumerate(view.met) if met}
  if view.points < 0:
    # A penalty is satisfied where its behaviour is absent.
    satisfying = {i for i, met in enumerate(view.met) if met is False}
  quoted = {quote.rollout for quote in suspicion.quotes}
  if quoted - satisfying:
    return f"quotes rollout {min(quoted - satisfying)}, which does not satisfy"
  needed = min(2, len(satisfying))
  if len(quoted) < needed:
    return f"quotes {len(quoted)} satisfying rollouts, {needed} are needed"
  failing = [
    responses[i]
    for i, met in enumerate(view.met)
    if met is not None and i not in satisfying
  ]
  for quote in suspicion.quotes:
    if any(quote.text in response for response in failing):
      return f"{quote.text[:80]!r} stands in a failing rollout too"
  return ""


def misquoted(cited: Sequence[records.Quote], responses: Sequence[str]) -> str:
  """Which quote is not there word for word, empty if all are.

  Quotes are not optional: none is trouble too.
  """
  if not cited:
    return "quotes nothing"
  for quote in cited:
    if not 0 <= quote.rollout < len(responses):
      return f"quotes rollout {quote.rollout}, which is not there"
    if not quote.text.strip() or quote.text not in responses[quote.rollout]:
      return f"rollout {quote.rollout} does not hold {quote.text[:80]!r}"
  return ""
