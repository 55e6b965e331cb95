// A row kernel with its arrays, whose shapes were checked when it was made: what steps repeat at the same addresses.
#pragma once

#include <cstdint>
#include <functional>

namespace frugal::bindings {

// To hand a kernel its arrays takes longer than to launch it: each tensor is asked for its memory through Python.
struct PreparedKernel {
  std::int64_t most_rows;
  std::function<void(std::int64_t rows, std::uintptr_t stream)> run;  // for the first `rows` rows
};

}  // namespace frugal::bindings
