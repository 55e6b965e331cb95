// Ranks of a test in an order that it forces.
#pragma once

#include <atomic>
#include <chrono>
#include <thread>

namespace frugal {

inline std::atomic<bool> waited_in_vain{false};

// Waits until is_so(), a minute at most, and no more after that: a program that waits where a mutation should have it
// go on never gets there, and its test fails by what it counts.
template <typename IsSo>
void eventually(IsSo is_so) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::minutes(1);
  while (!is_so() && !waited_in_vain) {
    if (std::chrono::steady_clock::now() > end) waited_in_vain = true;
    std::this_thread::yield();
  }
}

}  // namespace frugal
