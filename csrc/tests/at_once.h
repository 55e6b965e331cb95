// Work of several ranks, each a thread.
#pragma once

#include <thread>
#include <vector>

namespace frugal {

// Calls body(number) for each number below `count`, all at the same time, and returns when all have ended.
template <typename Body>
void at_once(int count, Body body) {
  std::vector<std::thread> threads;
  for (int number = 0; number < count; ++number) threads.emplace_back([&, number] { body(number); });
  for (std::thread& thread : threads) thread.join();
}

}  // namespace frugal
