"""The sections of a config: every knob, its meaning, its unit and its range."""

import dataclasses
from collections.abc import Mapping
from typing import Any, Literal

from hrl_jax.config import schema
from hrl_jax.core import advantages, losses, token_terms
from hrl_jax.model import decoder


@dataclasses.dataclass(frozen=True, kw_only=True)
class Model(schema.Section, place="config.model"):
  """The policy's starting point, which is also the frozen reference.

  Attributes:
    path: a Hugging Face directory, a `.gguf` file, or either of them inside
      an installed package, as `package:NAME/PATH`.
    dtype: of the compute; the trained parameters are float32.
    template_options: handed to the chat template, JSON values.
  """

  path: str
  dtype: Literal["float32", "bfloat16"]
  template_options: Mapping[str, Any]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Data(schema.Section, place="config.data"):
  """The tasks.

  Attributes:
    train: JSON Lines files of the bank, as for `Model.path`.
    held_out: likewise, of tasks that are only evaluated.
    max_tasks: the first so many tasks of `train`, None for all of them.
    max_prompt_tokens: a longer prompt is an error, never cut.
  """

  train: tuple[str, ...]
  held_out: tuple[str, ...]
  max_tasks: int | None = schema.within("[1, inf)")
  max_prompt_tokens: int = schema.within("[1, inf)")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Method(schema.Section, place="config.method"):
  """The training recipe.

  Attributes:
    name: a key of the table of methods.
    arguments: keyword arguments of its maker, JSON values.
  """

  name: str
  arguments: Mapping[str, Any]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Rollout(schema.Section, place="config.rollout"):
  """What a step samples.

  Attributes:
    tasks_per_step: P, groups in a batch.
    group_size: G, rollouts of a group.
    max_completion_tokens: length at which a rollout is cut.
    temperature: divides the logits.
    top_p: nucleus mass kept before drawing, 1 keeps all.
    top_k: number of tokens kept before drawing, 0 keeps all.
    drop_constant: whether groups without contrast are replaced.
    max_rounds: rounds of generation after which a batch stays short.
    max_rows: completions that the built-in engine decodes together.
  """

  tasks_per_step: int = schema.within("[1, inf)")
  group_size: int = schema.within("[2, inf)")
  max_completion_tokens: int = schema.within("[1, inf)")
  temperature: float = schema.within("(0, inf)")
  top_p: float = schema.within("(0, 1]")
  top_k: int = schema.within("[0, inf)")
  drop_constant: bool
  max_rounds: int = schema.within("[1, inf)")
  max_rows: int = schema.within("[1, inf)")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Endpoint(schema.Section, place="config.judge.endpoint"):
  """An OpenAI-compatible server, and how it is called.

  Attributes:
    url: its base, such as "http://127.0.0.1:8000/v1".
    model: the name that it serves the model under.
    api_key_variable: environment variable that holds its key, None for none.
    max_in_flight: calls that are open at the same time.
    attempts: tries of a call; those that it was told to repeat later
      (Retry-After) are not counted.
    timeout: seconds for one try.
    deadline: seconds for a call with all its tries and waits.
  """

  url: str
  model: str
  api_key_variable: str | None
  max_in_flight: int = schema.within("[1, inf)")
  attempts: int = schema.within("[1, inf)")
  timeout: float = schema.within("(0, inf)")
  deadline: float = schema.within("(0, inf)")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Judge(schema.Section, place="config.judge"):
  """Who grades the criteria that name no checker.

  Attributes:
    kind: "none" drops them; "likelihood" is the first policy itself, in this
      process; "llm" is a model behind `endpoint`; "lab" is the exact one of a
      world of the lab.
    thresholds: of "likelihood": the file that scripts/calibrate_judge.py made
      for the model and the tasks, as for `Model.path`.
    world: of "lab": the file that describes it.
    mode: of "llm": a call per "criterion", or one for the whole "rubric".
    structured: of "llm": whether the endpoint is asked to keep to the JSON
      schema of the reply.
    temperature: of "llm" (H-5).
    max_tokens: of "llm": length at which a reply is cut.
    deadline: of "llm": seconds after the last response of a step, after which
      what is not graded is missing.
    endpoint: of "llm".
  """

  kind: Literal["none", "likelihood", "llm", "lab"]
  thresholds: str
  world: str
  mode: Literal["criterion", "rubric"]
  structured: bool
  temperature: float = schema.within("[0, inf)")
  max_tokens: int = schema.within("[1, inf)")
  deadline: float = schema.within("(0, inf)")
  endpoint: Endpoint


@dataclasses.dataclass(frozen=True, kw_only=True)
class Credit(schema.Section, place="config.credit"):
  """From rewards to advantages (H-23).

  Attributes:
    estimator: name of the estimator of the advantage.
    ddof: 0 for the population's standard deviation, 1 for the sample's.
    epsilon: added to the standard deviation, in reward units.
  """

  estimator: str = schema.one_of(advantages.ESTIMATORS)
  ddof: Literal[0, 1]
  epsilon: float = schema.within("[0, inf)")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Loss(schema.Section, place="config.loss"):
  """From advantages to a scalar (H-24 to H-27).

  Attributes:
    aggregation: how token losses become one number.
    clip_low: the ratio is clipped below 1 - clip_low.
    clip_high: the ratio is clipped above 1 + clip_high.
    dual_clip: bound on ratio times |advantage| where the advantage is
      negative, None for none.
    kl_estimator: of KL(policy || reference) per token.
    kl_coefficient: beta, its weight in the loss.
    measure_kl: whether the KL is measured although its weight is 0, at the
      cost of a second copy of the model and its forward pass.
    entropy_coefficient: weight of the entropy bonus, in nats.
    correction: of the sampler mismatch: truncated ("tis") or masked ("mis")
      importance sampling, None for none.
    correction_level: whether its ratio is a token's or a sequence's.
    correction_low: ratio below which "mis" masks, 0 for "tis".
    correction_high: cap of "tis", ratio above which "mis" masks.
  """

  aggregation: str = schema.one_of(losses.AGGREGATIONS)
  clip_low: float = schema.within("(0, 1)")
  clip_high: float = schema.within("(0, inf)")
  dual_clip: float | None = schema.within("(1, inf)")
  kl_estimator: str = schema.one_of(token_terms.KL_ESTIMATORS)
  kl_coefficient: float = schema.within("[0, inf)")
  measure_kl: bool
  entropy_coefficient: float = schema.within("[0, inf)")
  correction: Literal["tis", "mis"] | None
  correction_level: Literal["token", "sequence"]
  correction_low: float = schema.within("[0, inf)")
  correction_high: float = schema.within("(0, inf)")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Optimizer(schema.Section, place="config.optimizer"):
  """AdamW and its schedule.

  Attributes:
    learning_rate: the peak.
    warmup_steps: steps of a linear rise from zero.
    schedule: what follows the rise, to zero at `num_steps` unless constant.
    b1: decay of the mean of the gradient.
    b2: decay of the mean of its square.
    eps: added to the root of the latter.
    weight_decay: decoupled, times the learning rate.
    max_grad_norm: the global norm at which the gradient is clipped.
  """

  learning_rate: float = schema.within("[0, inf)")
  warmup_steps: int = schema.within("[0, inf)")
  schedule: Literal["constant", "linear", "cosine"]
  b1: float = schema.within("[0, 1)")
  b2: float = schema.within("[0, 1)")
  eps: float = schema.within("(0, inf)")
  weight_decay: float = schema.within("[0, inf)")
  max_grad_norm: float = schema.within("(0, inf)")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Updates(schema.Section, place="config.updates"):
  """How the loss of a batch is computed; the form changes no number much.

  Attributes:
    form: one forward pass per distinct prompt, or one row per rollout.
    micro_batch_tokens: tokens of a forward pass.
    epochs: passes over a batch.
    mini_batches: optimiser steps in a pass (H-27).
    head_chunk: tokens whose logits exist at the same time.
    remat: what the backward pass keeps of a layer: nothing but its input
      ("full"), the products too ("dots"), or everything ("none").
    buckets_per_octave: lengths between a power of two and the next that
      batches are padded to; more waste fewer tokens and compile more often.
  """

  form: Literal["shared_prompt", "one_row"]
  micro_batch_tokens: int = schema.within("[1, inf)")
  epochs: int = schema.within("[1, inf)")
  mini_batches: int = schema.within("[1, inf)")
  head_chunk: int = schema.within("[1, inf)")
  remat: str = schema.one_of(decoder.REMAT_POLICIES)
  buckets_per_octave: int = schema.within("[1, 64]")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Evaluation(schema.Section, place="config.evaluation"):
  """Held-out tasks, decoded greedily without guidance (H-11).

  Attributes:
    every: steps between two evaluations.
    max_completion_tokens: length at which an answer is cut.
  """

  every: int = schema.within("[1, inf)")
  max_completion_tokens: int = schema.within("[1, inf)")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Checkpoint(schema.Section, place="config.checkpoint"):
  """What a run can be resumed from.

  Attributes:
    every: steps between two checkpoints.
    keep_last: newest checkpoints kept, beside the best by held-out score.
  """

  every: int = schema.within("[1, inf)")
  keep_last: int = schema.within("[1, inf)")
