#!/usr/bin/env bash
# packaging/build_wheel.sh OUT: a manylinux wheel in OUT, checked by auditwheel, tried in a bare environment.
#
# Its extension has the CUDA kernels for all architectures, and needs nvcc to be built (DGLKE_FRUGAL_CUDA=off: without).
# The extension links no CUDA library dynamically and no torch, so that one wheel runs with and without a GPU. With
# Python 3.12 or newer it uses the stable ABI. The oldest glibc it runs on is this machine's symbols' (auditwheel says):
# build in a manylinux container for a release.
set -euo pipefail
out=$(mkdir -p "${1:?usage: packaging/build_wheel.sh OUT}" && cd "$1" && pwd)
cd "$(dirname "$0")/.."
python=${PYTHON:-python3}
export DGLKE_FRUGAL_CUDA=${DGLKE_FRUGAL_CUDA:-on}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"$python" -m pip wheel -q --no-deps --no-build-isolation --wheel-dir "$work" .
"$python" -m auditwheel repair --wheel-dir "$out" "$work"/*.whl
wheel=$(ls -t "$out"/dglke_frugal-*.whl | head -1)
"$python" -m auditwheel show "$wheel"
"$python" packaging/try_wheel.py "$wheel"
echo "$wheel"
