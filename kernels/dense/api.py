"""The one entry to the operation; its reference is `x @ weight`."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float


@jax.custom_vjp
def dense(
  x: Float[Array, "*rest D"], weight_DE: Float[Array, "D E"]
) -> Float[Array, "*rest E"]:
  """x @ weight over the last axis, in the dtype of both.

  The gradient of the weight contracts the leading axes of two arrays. XLA's
  matmul for CPUs is half as fast at that as at the other two products, so
  there the narrower array is transposed first (`weight_gradient`).
  """
  return x @ weight_DE


def _forward(x, weight_DE):
  return x @ weight_DE, (x, weight_DE)


def _backward(residuals, gradient):
  x, weight_DE = residuals
  weight_gradient_DE = weight_gradient(
    x.reshape(-1, x.shape[-1]), gradient.reshape(-1, gradient.shape[-1])
  )
  return gradient @ weight_DE.T, weight_gradient_DE.astype(weight_DE.dtype)


dense.defvjp(_forward, _backward)


def weight_gradient(
  x_FD: Float[Array, "F D"], gradient_FE: Float[Array, "F E"]
) -> Float[Array, "D E"]:
  """x.T @ gradient, accumulated in float32.

  Args:
    x_FD: inputs of the product.
    gradient_FE: cotangents of its results.
  """
  return jax.lax.platform_dependent(
    x_FD, gradient_FE, cpu=_transposed_first, default=_contracted
  )


def _contracted(
  x_FD: Float[Array, "F D"], gradient_FE: Float[Array, "F E"]
) -> Float[Array, "D E"]:
  return jnp.einsum(
    "fd,fe->de", x_FD, gradient_FE, preferred_element_type=jnp.float32
  )


def _transposed_first(
  x_FD: Float[Array, "F D"], gradient_FE: Float[Array, "F E"]
) -> Float[Array, "D E"]:
  # The barriers keep XLA from folding a transpose back into the product.
  if x_FD.shape[1] > gradient_FE.shape[1]:
    weight_gradient_ED = _transposed_first(gradient_FE, x_FD)
    return jax.lax.optimization_barrier(weight_gradient_ED).T
  x_DF = jax.lax.optimization_barrier(x_FD.T)
  return jnp.einsum(
    "df,fe->de", x_DF, gradient_FE, preferred_element_type=jnp.float32
  )
