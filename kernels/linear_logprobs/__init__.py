"""Log-probabilities of given tokens straight from hidden states.

The head of a language model and the softmax over its vocabulary, joined: the
logits of more than a chunk of tokens are never in memory, forward or backward.
"""

from kernels.linear_logprobs.api import linear_logprobs as linear_logprobs
from kernels.linear_logprobs.reference import (
  linear_logprobs as linear_logprobs_reference,
)

__all__ = ["linear_logprobs", "linear_logprobs_reference"]
