# Functions that make virtual environments; read by the scripts beside it.

# Fails in words unless $1 is a Python that the project runs on.
check_python() {
  local version
  if ! "$1" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null
  then
    version="$("$1" --version 2>/dev/null)" || version="missing"
    echo "Python 3.11 or newer is needed, but '$1' is $version." \
      "Name another one: PYTHON=python3.12 $0" >&2
    return 1
  fi
  if ! "$1" -c 'import venv, ensurepip' 2>/dev/null; then
    echo "'$1' cannot make virtual environments: its venv module is missing." \
      "On Debian and Ubuntu: apt install python3-venv" >&2
    return 1
  fi
}

# make_environment FOLDER PYTHON REQUIREMENTS [WITHOUT_DEPENDENCIES]
#
# Makes a virtual environment, once: it is made again only where the Python,
# pyproject.toml, the lists of packages or the checkout's place have changed.
# The stamp is written last, so one left half made is made again.
make_environment() {
  local folder="$1" python="$2" stamp
  local -a requirements alone
  read -ra requirements <<< "$3"
  read -ra alone <<< "${4:-}"
  stamp="$(environment_stamp "$python" "$3" "${4:-}")" || return
  if [ "$(cat "$folder/stamp" 2>/dev/null)" = "$stamp" ]; then
    return
  fi
  echo "Making $folder, which takes some minutes." >&2
  rm -rf "$folder"
  "$python" -m venv "$folder" || return
  pip_install "$folder" "${requirements[@]}" || return
  if [ "${#alone[@]}" -gt 0 ]; then
    pip_install "$folder" --no-deps "${alone[@]}" || return
  fi
  echo "$stamp" > "$folder/stamp"
}

environment_stamp() {
  local python="$1"
  shift
  "$python" - "$@" <<'EOF'
import hashlib, os, pathlib, sys
parts = [os.getcwd(), sys.version, *sys.argv[1:]]
parts.append(pathlib.Path("pyproject.toml").read_text())
print(hashlib.sha256("\0".join(parts).encode()).hexdigest())
EOF
}

pip_install() {
  local folder="$1"
  shift
  "$folder/bin/python" -m pip install -qq --disable-pip-version-check "$@"
}
