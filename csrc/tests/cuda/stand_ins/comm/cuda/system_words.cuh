// In the place of the instructions: where blocks run one after the other, nobody else writes.
#pragma once

#include <cstdint>

namespace frugal::cuda {

inline std::uint64_t load_acquire(const std::uint64_t* from) { return *from; }
inline void store_release(std::uint64_t* to, std::uint64_t value) { *to = value; }

}  // namespace frugal::cuda
