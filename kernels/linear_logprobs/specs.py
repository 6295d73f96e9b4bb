"""Real shapes of the operation: (tokens, features, vocabulary)."""

SHAPES = {
  "smollm2_135m": (1536, 576, 49_152),
  "peer_benchmark": (2590, 256, 8192),
  "qwen35_2b": (2048, 2048, 248_320),
}
