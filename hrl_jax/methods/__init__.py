"""Training recipes, one a file, each the four functions of a `Method`."""

from collections.abc import Callable, Mapping

from hrl_jax import protocols
from hrl_jax.methods import grpo

METHODS: Mapping[str, Callable[..., protocols.Method]] = {"grpo": grpo.make}
