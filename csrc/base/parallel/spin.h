// Waiting for a number to change: first in a short spin, which saves a wake-up through the kernel, then asleep.
#pragma once

#include <atomic>

namespace frugal {

inline void spin_pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

template <typename T>
void wait_while_equal(const std::atomic<T>& value, T old) {
  constexpr int kSpins = 2000;  // kernels follow each other within microseconds in a training step
  for (int spin = 0; spin < kSpins; ++spin) {
    if (value.load(std::memory_order_acquire) != old) return;
    spin_pause();
  }
  value.wait(old, std::memory_order_acquire);
}

}  // namespace frugal
