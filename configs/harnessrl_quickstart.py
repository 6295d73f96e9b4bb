"""HarnessRL on two CPU cores, without a server.

  scripts/quickstart.sh configs/harnessrl_quickstart.py

The quickstart with a harness: before the first step the seed policy answers
every task once (the cold start), then labels, guidance and rubric changes are
measured and accepted beside the training. An LLM's part, telling hacks from
quality and wording changes, is played by rules (`evolver.kind`), so new
wordings are not proposed.

Hardware: two CPU cores and 8 GB of memory; see docs/benchmarks.md.
"""

import ml_collections
from ml_collections import config_dict

from configs import quickstart


def get_config() -> ml_collections.ConfigDict:
  """Returns every knob of the run."""
  config = quickstart.get_config()
  config.workdir = "runs/harnessrl_quickstart"
  # Few enough that each is drawn twice: what was accepted is seen to work.
  config.data.max_tasks = 24
  config.data.max_prompt_tokens = 384  # With guidance.

  config.method.name = "harnessrl"
  config.method.arguments = harnessrl()
  arguments = config.method.arguments
  arguments.probe_share = 1.0  # Of 4 draws a step, 0.28 would be one group.
  arguments.cold_start.second_groups = 24
  arguments.cold_start.regraded_groups = 20
  return config


def harnessrl() -> ml_collections.ConfigDict:
  """The arguments of HarnessRL with the values of the paper, or ours."""
  arguments = ml_collections.ConfigDict()
  arguments.interfaces = ("sampling", "rollout", "rubric")  # That evolve.
  arguments.critic = True  # False accepts every valid candidate unmeasured.
  arguments.use_memory = True  # False looks at the current group alone.
  arguments.rounds = 2  # Of proposals in a step; rejected ones come back.
  arguments.probe_share = 0.28  # Fresh groups of a step, of those drawn.
  arguments.paired_probe = False  # Against a fresh group, not the recorded?
  arguments.condition_on = "guided"  # Or "bare": prompt that is trained on.
  arguments.drop_needs_target_met = True  # Withdraw only if it is met without?
  arguments.drop_upper_bound = False  # Nor where the reward rises much?
  arguments.rubric_sign = "absolute"  # Or "signed", by what is intended.
  arguments.secondary_lower_bound = False
  arguments.saturated_records = 2  # Full ones before a label "saturated".
  arguments.reach_counts_guided = False  # Is what guidance reached "reached"?
  arguments.computed_confidence = 0.5  # Of a new label.
  arguments.mass_below_level = False  # Stricter rule for saturated tasks.
  arguments.rubric_confidence = 0.5  # Below it a criterion is left alone.
  arguments.guidance_tokens = 1024  # All fields of a task.
  arguments.donor_tokens = 384  # A response in a reference field.
  arguments.wording_tokens = 128  # A criterion.
  arguments.same_wording = 0.95  # Cosine at which two criteria are one.
  arguments.same_meaning = 0.82  # At which an earlier wording counts.

  arguments.evolver = evolver = ml_collections.ConfigDict()
  evolver.kind = "rules"  # Needs no model; "llm" asks the endpoint.
  evolver.structured = True  # Ask for JSON of a schema?
  evolver.temperature = 0.6
  evolver.max_tokens = 4096  # Of a reply, its reasons included.
  evolver.prompt_tokens = 16_384  # Rollouts are cut to it.
  evolver.deadline = 600.0  # Seconds for all questions of a kind in a step.
  evolver.endpoint = _endpoint("evolver")

  arguments.memory = memory = ml_collections.ConfigDict()
  memory.embedder = "hash"  # By spelling; "sentence" or "endpoint" by meaning.
  memory.model = "BAAI/bge-base-en-v1.5"  # Of "sentence"; a name or a path.
  memory.top_k = 4  # Related criteria for each.
  memory.floor = config_dict.placeholder(float)  # 0.82 of bge; None measures.
  memory.hit_share = 0.5  # Of criteria with something related, if measured.
  memory.search = "exact"  # "approximate" for hundreds of thousands.
  memory.related_shown = 16  # In a prompt.
  memory.endpoint = _endpoint("embedder")

  arguments.cold_start = cold_start = ml_collections.ConfigDict()
  cold_start.reuse = config_dict.placeholder(str)  # Another run's file.
  cold_start.second_groups = 200  # Tasks that are answered twice.
  cold_start.regraded_groups = 500  # Groups that are graded twice.
  cold_start.minimum_pairs = 20  # Of either.
  cold_start.anchor_share = 0.5  # Of a task's positive weight, at most.
  return arguments


def _endpoint(model: str) -> ml_collections.ConfigDict:
  endpoint = ml_collections.ConfigDict()
  endpoint.url = "http://127.0.0.1:8001/v1"
  endpoint.model = model  # As the server calls it.
  endpoint.api_key_variable = config_dict.placeholder(str)
  endpoint.max_in_flight = 64  # Calls.
  endpoint.attempts = 10  # Of a call.
  endpoint.timeout = 120.0  # Seconds of an attempt.
  endpoint.deadline = 300.0  # Seconds of a call with all its attempts.
  return endpoint
