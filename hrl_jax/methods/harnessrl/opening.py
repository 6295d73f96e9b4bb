"""Opens what HarnessRL needs of the world, and makes the method."""

import contextlib
import pathlib
from collections.abc import Callable

from hrl_jax import base
from hrl_jax.config import sections
from hrl_jax.harness import (
  cases,
  donors,
  guidance,
  rubrics,
  stand_in,
  validity,
)
from hrl_jax.harness.prompts import layout, rules
from hrl_jax.methods import given, harnessrl, interfaces
from hrl_jax.methods.harnessrl import (
  arguments,
  cold_file,
  cold_start,
  parts,
)
from hrl_jax.services import chat, credentials, llm, llm_roles
from hrl_jax.services.memory import (
  calibration,
  embedder,
  embedding_cache,
  memory,
)


def make(run: given.Given, knobs: arguments.Arguments) -> given.Made:
  """The method of a run.

  Raises:
    ValueError: if another process has its memory open, or the memory, the cold
      start or an argument is not of this run.
    chat.UnreachableError: within 10 seconds if a server does not answer.
  """
  roles = _roles(run, knobs)
  kept = _memory(run, knobs)
  made = parts.Parts(
    knobs=knobs.knobs(run.prompt_tokens),
    roles=roles,
    memory=kept,
    limits=validity.Limits(
      similarity=kept.similarities,
      highest_similarity=knobs.same_wording,
      count_tokens=run.count_text,
      most_tokens=knobs.wording_tokens,
      is_judged=run.is_judged,
    ),
    count_prompt=run.count_prompt,
    count_text=run.count_text,
    pool=run.pool,
    about=_about(run.bank),
    num_steps=run.num_steps,
    group_size=run.size.group_size,
  )
  start = harnessrl.Start(
    _cold_file(run, knobs.cold_start.reuse),
    knobs.cold_start.knobs(
      group_size=run.size.group_size, chunk=run.size.num_groups
    ),
  )
  method = harnessrl.make(run.size, made, start, interfaces.Rules())
  return given.Made(method, (kept,))


def _cold_file(run: given.Given, reuse: str | None) -> cold_start.File:
  if reuse is None:
    return cold_file.Own(run)
  return cold_file.Reused(pathlib.Path(reuse), run.bank.hash)


def _about(bank: base.Bank) -> Callable[[str], str]:
  by_id = {task.id: task for task in bank.tasks}
  return lambda name: donors.summary(by_id[name].prompt)


def _roles(run: given.Given, knobs: arguments.Arguments) -> cases.Roles:
  chosen = knobs.evolver
  if chosen.kind == "rules":
    return stand_in.StandIn(run.phrases)
  service = llm.LlmService(
    _endpoint(chosen.endpoint, "config.method.arguments.evolver"),
    llm.Knobs(
      structured=chosen.structured,
      temperature=chosen.temperature,
      max_tokens=chosen.max_tokens,
      deadline=chosen.deadline,
    ),
    run.kept,
  )
  service.check()
  return llm_roles.LlmRoles(
    service,
    layout.Budget(_estimate, chosen.prompt_tokens),
    rules.Limits(
      wording_tokens=knobs.wording_tokens,
      guidance_tokens=knobs.guidance_tokens,
      targets=guidance.MOST_TARGETS,
      confidence=knobs.rubric_confidence,
    ),
  )


def _estimate(text: str) -> int:
  """Tokens of a text for a model whose tokenizer is not at hand."""
  return -(-len(text.encode()) // 3)


def _memory(run: given.Given, knobs: arguments.Arguments) -> memory.Memory:
  chosen = knobs.memory
  seeds = [(task.id, rubrics.seed_versions(task)) for task in run.bank.tasks]
  folder = run.folder / "memory"
  made = _embedder(chosen)
  floor = chosen.floor
  if floor is None:
    floor = _floor(folder, made, run.bank, chosen.hit_share)
  return memory.Memory(
    folder,
    run.bank.hash,
    seeds,
    made,
    top_k=chosen.top_k,
    floor=floor,
    search=chosen.search,
  )


def _embedder(chosen: arguments.Memory) -> embedder.Embedder:
  if chosen.embedder == "hash":
    return embedder.HashEmbedder()
  if chosen.embedder == "sentence":
    return embedder.SentenceEmbedder(chosen.model)
  from hrl_jax.services.memory import endpoint_embedder

  return endpoint_embedder.EndpointEmbedder(
    _endpoint(chosen.endpoint, "config.method.arguments.memory")
  )


def _floor(
  folder: pathlib.Path,
  made: embedder.Embedder,
  bank: base.Bank,
  share: float,
) -> float:
  """The cosine at which that share of criteria has something related."""
  criteria = [(task.id, c) for task in bank.tasks for c in task.rubric]
  texts = list(dict.fromkeys(criterion.text for _, criterion in criteria))
  folder.mkdir(parents=True, exist_ok=True)
  cache = embedding_cache.EmbeddingCache(folder, made)
  with contextlib.closing(cache):
    vectors = cache.vectors(texts)
  row = {text: index for index, text in enumerate(texts)}
  return calibration.calibrate_floor(
    vectors[[row[criterion.text] for _, criterion in criteria]],
    [name for name, _ in criteria],
    [1 if criterion.weight > 0 else -1 for _, criterion in criteria],
    share,
  )


def _endpoint(knobs: sections.Endpoint, section: str) -> chat.Endpoint:
  return chat.Endpoint(
    url=knobs.url,
    model=knobs.model,
    api_key=credentials.api_key(knobs.api_key_variable, section),
    max_in_flight=knobs.max_in_flight,
    attempts=knobs.attempts,
    timeout_s=knobs.timeout,
    deadline_s=knobs.deadline,
    # Of a batch of embeddings: 32 vectors of some thousand numbers.
    max_reply_bytes=4_000_000,
    section=section,
  )
