#!/bin/sh
# Builds and runs the tests of threads, engine and sampler under the thread sanitizer and the address sanitizer, and
# checks clang's thread-safety analysis. For CI: any report fails.
# Usage: csrc/tests/run_sanitizers.sh [build folder] (default: build/sanitizers)
set -eu
source=$(cd "$(dirname "$0")/../.." && pwd)
build=${1:-$source/build/sanitizers}

if command -v clang++ > /dev/null; then
  for file in "$source"/csrc/engine/*.cpp "$source"/csrc/parallel/*.cpp; do
    clang++ -std=c++20 -I"$source/csrc" -fsyntax-only -Wthread-safety -Werror "$file"
  done
  echo "thread-safety analysis: clean"
else
  echo "thread-safety analysis: clang++ not found" >&2
  exit 1
fi

for sanitizer in thread address,undefined; do
  cmake -S "$source" -B "$build/$sanitizer" -G Ninja -DFRUGAL_PYTHON=OFF -DFRUGAL_CUDA=OFF -DFRUGAL_TESTS=ON \
    -DFRUGAL_SANITIZE="$sanitizer" > /dev/null
  cmake --build "$build/$sanitizer" --target test_engine test_sampler test_parallel > /dev/null
  TSAN_OPTIONS=halt_on_error=1 UBSAN_OPTIONS=halt_on_error=1 timeout 300 "$build/$sanitizer/csrc/tests/engine/test_engine" \
    --gtest_brief=1 --gtest_filter='-*BrokenVariant*:*EngineMutation*'  # those race: that is what is broken
  TSAN_OPTIONS=halt_on_error=1 UBSAN_OPTIONS=halt_on_error=1 timeout 300 \
    "$build/$sanitizer/csrc/tests/sampler/test_sampler" --gtest_brief=1 --gtest_filter='BatchStream*:BatchRing*:Shared*'
  TSAN_OPTIONS=halt_on_error=1 UBSAN_OPTIONS=halt_on_error=1 timeout 300 "$build/$sanitizer/csrc/tests/test_parallel" \
    --gtest_brief=1
  echo "$sanitizer sanitizer: clean"
done
