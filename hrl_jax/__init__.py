"""HarnessRL and HarnessBandit: RL of language models on rubrics, in JAX."""
