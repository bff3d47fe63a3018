#!/usr/bin/env bash
# Checks and times everything that needs an NVIDIA GPU, in one go:
#
#   bench/gpu/run.sh [WHEEL]
#
# WHEEL: a wheel for the Python at hand (default: the one in dist/ that fits, otherwise `make wheel` makes it). Python
# must have torch with CUDA. At the end it prints the tables that docs/performance.md shows.
set -euo pipefail
cd "$(dirname "$0")/../.."
PYTHON=${PYTHON:-python3}
tag=$("$PYTHON" -c 'import sys; print(f"cp{sys.version_info[0]}{sys.version_info[1]}")')
wheel=${1:-$(ls dist/sonde-*-"$tag"-*.whl 2>/dev/null | tail -n 1 || true)}
if [[ -z $wheel ]]; then
  make wheel
  wheel=$(ls dist/sonde-*-"$tag"-*.whl | tail -n 1)
fi
site=build/gpu-site
rm -rf "$site"
"$PYTHON" -m pip install --quiet --disable-pip-version-check --no-deps --no-index --target "$site" "$wheel"
export PYTHONPATH="$PWD/$site" PYTHONUNBUFFERED=1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export CIRRON_OUTPUT_DIR="$work/out"
status=0
"$PYTHON" bench/gpu/check.py || status=1
"$PYTHON" bench/gpu/snapshots.py || status=1
"$PYTHON" bench/gpu/snapshots.py table || status=1
"$PYTHON" bench/gpu/times.py || status=1
exit $status
