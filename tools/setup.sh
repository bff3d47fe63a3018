#!/usr/bin/env bash
# Installs what the Makefile's targets need on a Debian machine: Debian packages, then Python packages in a virtual
# environment.
#
#   tools/setup.sh [--retry] GROUP...     build, demo, test, partners, bench, lint, clang: the sections of
#                                         tools/apt-packages.txt and tools/requirements.txt
#
# A group is skipped when its list has not changed since it was last installed, so calling this again costs little. What
# tests can do without and cannot be installed is left out, named on each run, and tried again with --retry. Without root
# it installs no Debian packages: it prints one command that installs all that are missing.
#
#   PYTHON   the interpreter of the environment (default: python3)
#   VENV     the environment's folder (default: .venv)
#   STAMPS   where to remember what is installed (default: build/stamps)
set -euo pipefail
cd "$(dirname "$0")/.."

PYTHON=${PYTHON:-python3}
VENV=${VENV:-.venv}
STAMPS=${STAMPS:-build/stamps}
MB=1000000
LARGE_MB=50  # a download that takes a while

say() { printf 'setup: %s\n' "$*"; }
die() { printf 'setup: %s\n' "$*" >&2; exit 1; }

# Of what pip and apt print: large downloads and, in a terminal, how far the present step is.
show_progress() {
  local line step
  while IFS= read -r line; do
    step=
    if [[ $line =~ ^\ *Downloading\ (.*/)?([^/]+)\ \((([0-9]+)[0-9.]*\ ([MG])B)\)$ ]]; then
      if [[ ${BASH_REMATCH[5]} == G ]] || ((BASH_REMATCH[4] >= LARGE_MB)); then
        say "downloading ${BASH_REMATCH[2]} (${BASH_REMATCH[3]})"
      fi
    elif [[ $line =~ ^Progress\ ([0-9]+)\ of\ ([0-9]+)$ ]] && ((BASH_REMATCH[2] >= LARGE_MB * MB)); then
      step="$((BASH_REMATCH[1] / MB)) of $((BASH_REMATCH[2] / MB)) MB"
    elif [[ $line =~ ^(dl|pm)status:[^:]*:([0-9]+)[0-9.]*:(.*)$ ]]; then
      step="${BASH_REMATCH[2]} %  ${BASH_REMATCH[3]}"
    fi
    [[ ! -t 1 ]] || printf '\r  %.70s\033[K\r' "$step"
  done
}

# section FILE GROUP: the lines of a group, without comments
section() { awk -v group="[$2]" '/^\[/ {on = ($0 == group); next} on' "$1" | sed -e 's/#.*//' -e '/^[[:space:]]*$/d'; }

# mark_done NAME KEY [LEFT OUT...]: NAME is done with this KEY. is_done NAME KEY: is it?
mark_done() { mkdir -p "$STAMPS"; printf '%s\n' "${@:2}" >"$STAMPS/$1"; }
is_done() { [[ -f $STAMPS/$1 && $(head -n 1 "$STAMPS/$1") == "$2" ]]; }

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

# not_installed PACKAGE...: those of them that are not
not_installed() {
  local package
  for package in "$@"; do
    [[ $(dpkg-query -W -f='${db:Status-Status}' "$package" 2>/dev/null) == installed ]] || echo "$package"
  done
}

# missing_packages GROUP
missing_packages() {
  local wanted
  wanted=$(section tools/apt-packages.txt "$1")
  [[ $1 != build ]] || wanted+=" $(python_packages)"
  # shellcheck disable=SC2086  # a list of words
  not_installed $wanted
}

packages_key() { echo "$(section tools/apt-packages.txt "$1" | sha256sum) $(command -v "$PYTHON")"; }

# Without root: the packages that any of the groups lacks, in one command.
ask_for_packages() {
  local group missing
  missing=$(for group in "$@"; do
    is_done "apt-$group" "$(packages_key "$group")" || missing_packages "$group"
  done | sort -u | xargs)
  [[ -n $missing ]] || return 0
  say "these packages are missing. Run this, then try again:" >&2
  printf '\n  sudo apt-get update && sudo apt-get install -y --no-install-recommends %s\n\n' "$missing" >&2
  exit 1
}

# apt_install PACKAGE...
apt_install() {
  say "Debian packages: $*"
  export DEBIAN_FRONTEND=noninteractive
  # A list that cannot be refreshed may still do; the installation below decides.
  apt-get update -qq || say "apt-get update failed, trying with the lists at hand"
  apt-get install -y -qq --no-install-recommends -o DPkg::Lock::Timeout=300 -o APT::Status-Fd=3 "$@" \
    3>&1 >/dev/null | show_progress
}

install_packages() {
  local group=$1 key missing optional
  key=$(packages_key "$group")
  is_done "apt-$group" "$key" && return
  mapfile -t missing < <(missing_packages "$group")
  ((${#missing[@]} == 0)) || apt_install "${missing[@]}"
  if ((EUID == 0)); then
    # shellcheck disable=SC2046  # a list of words
    mapfile -t optional < <(not_installed $(section tools/apt-packages.txt "$group-optional"))
    ((${#optional[@]} == 0)) || apt_install "${optional[@]}" || say "going on without: ${optional[*]}"
  fi
  # Debian's package belongs to Debian's interpreter.
  [[ $group != build || -z $(python_packages) ]] ||
    die "$PYTHON has no Python.h or no venv module; install them for this interpreter, or set PYTHON"
  mark_done "apt-$group" "$key"
}

make_venv() {
  local version
  version=$(version_of "$PYTHON")
  # Half-made, or of another Python: start over.
  if [[ $(version_of "$VENV/bin/python") != "$version" ]] || ! "$VENV/bin/python" -m pip --version >/dev/null 2>&1; then
    say "$VENV with $("$PYTHON" -V)"
    rm -f "$STAMPS"/pip-* "$STAMPS"/editable*
    "$PYTHON" -m venv --clear "$VENV"
    pip_counts || pip_install 'pip>=24.1' || say "this pip does not show how far a download is"
  fi
}

# Can this pip say, line by line, how far a download is?
pip_counts() {
  "$VENV/bin/python" -c 'import pip, sys; sys.exit([int(n) for n in pip.__version__.split(".")[:2]] < [24, 1])'
}

# What pip says on standard error is shown, and kept for lacks_connection.
pip_install() {
  local options=(--disable-pip-version-check)
  ! pip_counts || options+=(--progress-bar raw)
  { "$VENV/bin/python" -m pip install "${options[@]}" "$@" 2>&1 >&3 3>&- | tee "$pip_errors" >&2; } 3>&1 | show_progress
}

# Did the last pip_install fail because no package index answered? pip then says so for its last try.
lacks_connection() { grep -qE 'Retry\(total=0[,)]|Max retries exceeded' "$pip_errors"; }

# One after the other, if all together could not be installed. Adds to the caller's left_out. False: there is no
# connection, and the rest is not tried.
install_one_by_one() {
  local requirement
  while read -r requirement; do
    pip_install "$requirement" </dev/null && continue
    if lacks_connection; then
      unreached=$requirement
      return 1
    fi
    left_out+=("$requirement")
  done
}

say_left_out() {
  local again="make setup"
  [[ $PYTHON == python3 ]] || again+=" PYTHON=$PYTHON"
  ((${#left_out[@]} == 0)) ||
    say "cannot be installed with $("$VENV/bin/python" -V), so tests that need it are skipped ($again tries again): ${left_out[*]}"
}

# Tests skip what needs a framework that is not there. Without partners [demo] is asked for by the demo itself.
is_optional() { [[ $1 == partners || ( $1 == demo && " ${groups[*]} " == *" partners "* ) ]]; }

install_requirements() {
  local group=$1 wanted key left_out=() unreached
  wanted=$(section tools/requirements.txt "$group")
  [[ -n $wanted ]] || return 0
  key="$(sha256sum <<<"$wanted") $(version_of "$PYTHON")"
  if is_done "pip-$group" "$key"; then
    mapfile -t left_out < <(tail -n +2 "$STAMPS/pip-$group")
    if ((${#left_out[@]} == 0)) || { [[ -z $retry ]] && is_optional "$group"; }; then
      say_left_out
      return
    fi
    left_out=()
  fi
  say "into $VENV: $(xargs <<<"$wanted")"
  # shellcheck disable=SC2086  # a list of words
  if ! pip_install $wanted; then
    is_optional "$group" || die "pip could not install [$group] of tools/requirements.txt; see its output above"
    if ! install_one_by_one <<<"$wanted"; then
      say "no package index answers (asked for $unreached), so [$group] is not complete and tests may be skipped; the next make tries again"
      return
    fi
    # None at all: that is the network, too, and it may work the next time.
    ((${#left_out[@]} < $(wc -l <<<"$wanted"))) || { say_left_out; return; }
  fi
  mark_done "pip-$group" "$key" "${left_out[@]}"
  say_left_out
}

check_python
retry=
if [[ ${1-} == --retry ]]; then
  retry=yes
  shift
fi
(($# > 0)) || die "name at least one group: $(sed -n 's/^\[\([a-z]*\)\]$/\1/p' tools/apt-packages.txt tools/requirements.txt | sort -u | xargs)"
groups=("$@")
for group in "${groups[@]}"; do
  grep -qx "\[$group\]" tools/apt-packages.txt tools/requirements.txt || die "there is no group '$group'"
  is_done "apt-$group" "$(packages_key "$group")" || command -v dpkg-query >/dev/null ||
    die "this is not Debian; install the counterparts of [$group] in tools/apt-packages.txt, then: mkdir -p $STAMPS && printf '%s' '$(packages_key "$group")' >$STAMPS/apt-$group"
done
((EUID == 0)) || ask_for_packages "${groups[@]}"
pip_errors=$(mktemp)
trap 'rm -f "$pip_errors"' EXIT
for group in "${groups[@]}"; do
  install_packages "$group"
  make_venv
  install_requirements "$group"
done
