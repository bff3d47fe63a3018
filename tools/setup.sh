#!/usr/bin/env bash
# Brings a Debian machine to where the Makefile's other targets can run: packages, then .venv.
# Each part is skipped when its list has not changed since it last succeeded, so calling this is free.
#
#   tools/setup.sh [packages|venv]     default: both
#
# PYTHON picks the interpreter of .venv (default: python3).
set -euo pipefail
cd "$(dirname "$0")/.."

PYTHON=${PYTHON:-python3}
STAMPS=build/stamps

say() { printf 'setup: %s\n' "$*"; }
die() { printf 'setup: %s\n' "$*" >&2; exit 1; }

list() { sed -e 's/#.*//' -e '/^[[:space:]]*$/d' "$1"; }

# is_done NAME KEY: did NAME last succeed with this KEY?
is_done() { [[ -f $STAMPS/$1 && $(<"$STAMPS/$1") == "$2" ]]; }
mark_done() { mkdir -p "$STAMPS"; printf '%s' "$2" >"$STAMPS/$1"; }

version_of() { "$1" -c 'import platform; print(platform.python_version())' 2>/dev/null || true; }

check_python() {
  command -v "$PYTHON" >/dev/null || die "$PYTHON not found; install Python 3.11 or newer, or set PYTHON"
  "$PYTHON" -c 'import sys; sys.exit(sys.version_info < (3, 11))' ||
    die "$PYTHON is $("$PYTHON" -V 2>&1); Python 3.11 or newer is needed (set PYTHON to choose another)"
}

# What the interpreter lacks. A Python of pyenv's brings venv and headers along; Debian's has packages for them.
python_packages() {
  "$PYTHON" -c 'import ensurepip, venv' 2>/dev/null || echo python3-venv
  "$PYTHON" -c 'import os, sys, sysconfig
sys.exit(not os.path.exists(os.path.join(sysconfig.get_path("include"), "Python.h")))' || echo python3-dev
}

missing_packages() {
  local package
  for package in $(list tools/apt-packages.txt) $(python_packages); do
    [[ $(dpkg-query -W -f='${db:Status-Status}' "$package" 2>/dev/null) == installed ]] || echo "$package"
  done
}

setup_packages() {
  local key missing
  key="$(sha256sum <tools/apt-packages.txt) $(command -v "$PYTHON")"
  is_done packages "$key" && return
  command -v dpkg-query >/dev/null ||
    die "this is no Debian; install the counterparts of tools/apt-packages.txt, then: mkdir -p $STAMPS && printf '%s' '$key' >$STAMPS/packages"
  missing=$(missing_packages | xargs)
  if [[ -n $missing ]]; then
    if ((EUID != 0)); then
      say "these packages are missing. Run this, then try again:" >&2
      printf '\n  sudo apt-get update && sudo apt-get install -y --no-install-recommends %s\n\n' "$missing" >&2
      exit 1
    fi
    say "installing $missing"
    export DEBIAN_FRONTEND=noninteractive
    # A list that can not be refreshed may still do; the installation below decides.
    apt-get update -qq || say "apt-get update failed, trying with the lists at hand"
    # shellcheck disable=SC2086  # a list of words
    apt-get install -y -qq --no-install-recommends -o DPkg::Lock::Timeout=300 $missing >/dev/null
  fi
  mark_done packages "$key"
}

setup_venv() {
  local key version
  version=$(version_of "$PYTHON")
  key="$(sha256sum <tools/requirements-dev.txt) $version"
  if [[ -x .venv/bin/python ]] && is_done venv "$key"; then return; fi
  # Half-made, or of another Python: start over.
  if [[ $(version_of .venv/bin/python) != "$version" ]] || ! .venv/bin/python -m pip --version >/dev/null 2>&1; then
    say "creating .venv with $("$PYTHON" -V)"
    "$PYTHON" -m venv --clear .venv
  fi
  say "installing tools/requirements-dev.txt into .venv (the first time takes minutes)"
  .venv/bin/python -m pip install --quiet --disable-pip-version-check -r tools/requirements-dev.txt
  mark_done venv "$key"
}

check_python
case ${1:-all} in
  packages) setup_packages ;;
  venv) setup_venv ;;
  all) setup_packages; setup_venv ;;
  *) die "unknown part '$1'; choose packages or venv" ;;
esac
