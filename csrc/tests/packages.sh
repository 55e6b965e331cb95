#!/bin/sh
# What the C++ tests need of the system. What is missing is installed where this is root on Debian or Ubuntu; elsewhere
# the command that does it is printed, and the exit code is 1.
set -eu

find_missing() {
  missing=""
  while read -r package proof; do
    case $proof in
      *.h) echo "#include <$proof>" | "${CXX:-c++}" -x c++ -std=c++20 -E - > /dev/null 2>&1 || missing="$missing $package" ;;
      *) command -v "$proof" > /dev/null || missing="$missing $package" ;;
    esac
  done << end
g++ ${CXX:-c++}
libgtest-dev gtest/gtest.h
libgmock-dev gmock/gmock.h
clang clang++
end
}

find_missing
[ -n "$missing" ] || exit 0
install="apt-get install -y --no-install-recommends$missing"
if [ "$(id -u)" = 0 ] && command -v apt-get > /dev/null; then
  export DEBIAN_FRONTEND=noninteractive
  if apt-get update -q && $install; then
    find_missing
    [ -n "$missing" ] || exit 0
  fi
  echo "the C++ tests still lack$missing (Debian's names), which apt-get could not bring" >&2
else
  echo "the C++ tests lack$missing (Debian's names); install them with: sudo $install" >&2
fi
exit 1
