// None.
#pragma once

namespace frugal::cuda {

inline constexpr int gather_in_bulk = 0, return_in_bulk = 0;

template <typename... Arguments>
bool launch_in_bulk(const Arguments&...) {
  return false;
}

}  // namespace frugal::cuda
