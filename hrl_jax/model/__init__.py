"""The policy network as pure functions over a pytree of parameters."""
