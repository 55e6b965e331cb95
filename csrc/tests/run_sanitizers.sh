#!/bin/sh
# Builds and runs the tests of threads, engine, batches, exchange and owner transfer, under the thread sanitizer and
# then under those of addresses and of undefined behaviour, and checks clang's thread-safety analysis. Any report fails.
# Usage: csrc/tests/run_sanitizers.sh [build folder] (default: build/sanitizers)
set -eu
source=$(cd "$(dirname "$0")/../.." && pwd)
build=${1:-$source/build/sanitizers}
programs="engine/test_engine sampler/test_batch_threads comm/test_exchange comm/test_owner_transfer base/test_parallel"
# Those race: that is what is broken.
broken='*BrokenVariant*:*EngineMutation*:ExchangeMutations*:OwnerTransferMutations*:SynchronisedRanks.Each*IsNeeded'

if command -v clang++ > /dev/null; then
  printf '%s\n' "$source"/csrc/engine/*.cpp "$source"/csrc/engine/p2f/*.cpp "$source"/csrc/base/parallel/*.cpp |
    xargs -n 1 -P 2 clang++ -std=c++20 -I"$source/csrc" -fsyntax-only -Wthread-safety -Werror
  echo "thread-safety analysis: clean"
else
  echo "thread-safety analysis: clang++ not found" >&2
  exit 1
fi

export TSAN_OPTIONS=halt_on_error=1
half() {  # of the tests of a program: sanitizer, program, which half
  [ "$1" = thread ] && wanted="-$broken" || wanted="*"
  GTEST_TOTAL_SHARDS=2 GTEST_SHARD_INDEX=$3 timeout 3600 \
    "$build/$1/csrc/tests/$2" --gtest_brief=1 --gtest_filter="$wanted"
}
run() {
  for test in $programs; do
    half "$1" "$test" 0 &
    first=$!
    half "$1" "$test" 1 || return 1
    wait $first || return 1
  done
  echo "$1 sanitizer: clean"
}

for sanitizer in thread address,undefined; do
  cmake -S "$source" -B "$build/$sanitizer" -G Ninja -DFRUGAL_PYTHON=OFF -DFRUGAL_CUDA=OFF -DFRUGAL_TESTS=ON \
    -DFRUGAL_SANITIZE="$sanitizer" > /dev/null
  cmake --build "$build/$sanitizer" --target $(basename -a $programs) > /dev/null
  run "$sanitizer"
done
