"""The first policy: the project's decoder, taught on generated texts."""

import functools
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax

from hrl_jax import batch
from hrl_jax.core import optimizer
from hrl_jax.lab import lexicon, teacher, tokens
from hrl_jax.lab import world as worlds
from hrl_jax.model import decoder, policy, specification

# Prompt lengths to which texts are padded: a bare prompt, and two of guidance.
# The texts of a step are of one length; those beyond the last, one in some
# thousands, are left out.
_PROMPT_LENGTHS = (16, 48, 144)
_RESPONSE_LENGTH = 24
# Longest prompt and completion of a model, in tokens.
_POSITIONS = 384
# From the deviation of the decoder's first parameters to 0.1.
_WIDER = 5.0
# Deviation of what the embeddings of a kind have in common.
_SHARED = 0.1


class _Texts(NamedTuple):
  """Texts of one padded length.

  Attributes:
    layout: as the network reads them; its arrays have N rows.
    rows: texts of a step.
  """

  layout: batch.OneRow
  rows: int


def sizes(world: worlds.World) -> specification.DecoderConfig:
  """The decoder of a world."""
  parameters = world.parameters
  return specification.DecoderConfig(
    family="qwen3",
    vocab_size=tokens.tokenizer().vocab_size,
    hidden_size=parameters.features,
    intermediate_size=parameters.inner_features,
    num_layers=parameters.layers,
    num_heads=parameters.heads,
    num_kv_heads=parameters.heads,
    head_dim=parameters.features // parameters.heads,
    rope_theta=1e6,
    norm_eps=1e-6,
    tie_embeddings=True,
    attention_bias=False,
    qk_norm=True,
    max_positions=_POSITIONS,
  )


def taught(world: worlds.World) -> decoder.Params:
  """Parameters after the world's lesson, on the host; a minute on two cores.

  First come texts without noise, from which attention learns where to look
  within a few hundred steps, then those of the world.
  """
  parameters = world.parameters
  config = sizes(world)
  rng = np.random.default_rng([world.seed, 1])
  count = parameters.clear_lessons + parameters.lessons
  optimiser = optimizer.adamw(
    learning_rate=parameters.learning_rate,
    warmup_steps=10,
    num_steps=count,
    schedule="cosine",
    b1=0.9,
    b2=0.98,
    eps=1e-8,
    weight_decay=0.0,
    max_grad_norm=1.0,
  )
  step = _step(config, optimiser)
  params = _first(config, jax.random.key(world.seed))
  state = optimiser.init(params)
  for each, lessons in (
    (teacher.clear(world), parameters.clear_lessons),
    (world, parameters.lessons),
  ):
    texts = [teacher.example(each, rng) for _ in range(parameters.examples)]
    groups = _grouped(texts, parameters.lesson_tokens)
    for layout in _batches(groups, rng, lessons):
      params, state = step(params, state, layout)
  return jax.tree.map(np.asarray, params)


def _first(
  config: specification.DecoderConfig, key: jax.Array
) -> decoder.Params:
  """Random parameters from which a small network learns quickly.

  They are wider than those of a large one; words of a kind have a part of their
  embeddings in common; and attention copies what it looks at: its output
  projection is the transpose of that of its values.
  """
  own_key, kind_key = jax.random.split(key)

  def widened(path, leaf):
    is_matrix = path[-1].key in ("kernel", "embedding")
    return leaf * _WIDER if is_matrix else leaf

  params = jax.tree_util.tree_map_with_path(
    widened, decoder.init(config, own_key)
  )
  attention = params["layers"]["attention"]
  copying = {"kernel": attention["v"]["kernel"].swapaxes(1, 2)}
  embedding_VD = params["embed"]["embedding"]
  shared_KD = _SHARED * jax.random.normal(
    kind_key, (len(lexicon.KINDS), config.hidden_size)
  )
  for kind, shared_D in zip(lexicon.KINDS, shared_KD, strict=True):
    ids = np.array([tokens.tokenizer().encode(word)[0] for word in kind])
    embedding_VD = embedding_VD.at[ids].add(shared_D[None])
  return {
    **params,
    "embed": {"embedding": embedding_VD},
    "layers": {
      **params["layers"],
      "attention": {**attention, "o": copying},
    },
  }


def _step(
  config: specification.DecoderConfig, optimiser: optax.GradientTransformation
) -> Callable[..., tuple[decoder.Params, optax.OptState]]:
  """One update towards the answers of a batch; prompts are only read."""

  def loss(params, layout):
    logprobs_BT, _ = policy.row_logprobs(
      config,
      params,
      layout,
      temperature=1.0,
      head_chunk=layout.completions_MBT.size,
      remat="none",
    )
    mask_BT = layout.completion_mask_MBT
    return -jnp.sum(logprobs_BT, where=mask_BT) / mask_BT.sum()

  @functools.partial(jax.jit, donate_argnums=(0, 1))
  def step(params, state, layout):
    gradient = jax.grad(loss)(params, layout)
    updates, state = optimiser.update(gradient, state, params)
    return optax.apply_updates(params, updates), state

  return step


def _grouped(
  texts: Sequence[teacher.Example], tokens_of_step: int
) -> list[_Texts]:
  """The texts by padded length, each as many a step as make the tokens."""
  text = tokens.tokenizer()
  prompts = [text.encode_chat(each.prompt) for each in texts]
  answers = [
    (*text.encode(" ".join(each.response)), text.stop_ids[0]) for each in texts
  ]
  lengths = np.array([len(prompt) for prompt in prompts])
  places = np.searchsorted(_PROMPT_LENGTHS, lengths)
  return [
    _Texts(
      _padded(
        [prompts[i] for i in chosen], [answers[i] for i in chosen], length
      ),
      max(1, tokens_of_step // (length + _RESPONSE_LENGTH)),
    )
    for place, length in enumerate(_PROMPT_LENGTHS)
    if len(chosen := np.flatnonzero(places == place))
  ]


def _padded(
  prompts: Sequence[Sequence[int]],
  answers: Sequence[Sequence[int]],
  length: int,
) -> batch.OneRow:
  prompts_BT = np.zeros((len(prompts), length), np.int32)
  answers_BT = np.zeros((len(prompts), _RESPONSE_LENGTH), np.int32)
  prompt_mask_BT = np.zeros(prompts_BT.shape, bool)
  answer_mask_BT = np.zeros(answers_BT.shape, bool)
  for row, (prompt, answer) in enumerate(zip(prompts, answers, strict=True)):
    prompts_BT[row, -len(prompt) :] = prompt
    prompt_mask_BT[row, -len(prompt) :] = True
    answers_BT[row, : len(answer)] = answer
    answer_mask_BT[row, : len(answer)] = True
  return batch.OneRow(prompts_BT, prompt_mask_BT, answers_BT, answer_mask_BT)


def _batches(
  groups: Sequence[_Texts], rng: np.random.Generator, count: int
) -> Iterator[batch.OneRow]:
  """Batches of one length; a length comes as often as its texts ask for."""
  sizes = np.array([len(each.layout.prompts_MBT) for each in groups])
  steps = sizes / np.array([each.rows for each in groups])
  for place in rng.choice(len(groups), size=count, p=steps / steps.sum()):
    chosen = rng.integers(sizes[place], size=groups[place].rows)
    yield jax.tree.map(lambda each, c=chosen: each[c], groups[place].layout)
