// Words that devices and processors share: read and written in the order of the whole system.
#pragma once

#include <cstdint>

namespace frugal::cuda {

__device__ inline std::uint64_t load_acquire(const std::uint64_t* from) {
  std::uint64_t value;
  asm volatile("ld.acquire.sys.global.u64 %0, [%1];" : "=l"(value) : "l"(from) : "memory");
  return value;
}

__device__ inline void store_release(std::uint64_t* to, std::uint64_t value) {
  asm volatile("st.release.sys.global.u64 [%0], %1;" ::"l"(to), "l"(value) : "memory");
}

}  // namespace frugal::cuda
