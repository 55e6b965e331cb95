// Small helpers that the engine's benchmark programs share: a clock, medians, command line numbers.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

namespace frugal::benchmarks {

inline double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

inline double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

// The value behind `--name`, or `otherwise`.
inline std::string option(int argc, char** argv, const char* name, const std::string& otherwise) {
  for (int i = 1; i + 1 < argc; ++i)
    if (std::strcmp(argv[i], name) == 0) return argv[i + 1];
  return otherwise;
}
inline long number(int argc, char** argv, const char* name, long otherwise) {
  return std::atol(option(argc, argv, name, std::to_string(otherwise)).c_str());
}

}  // namespace frugal::benchmarks
