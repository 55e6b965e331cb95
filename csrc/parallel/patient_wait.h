// Waiting for a number that another process changes, where nobody wakes the one who waits.
#pragma once

#include <chrono>
#include <thread>

namespace frugal {

// To be called between two looks: gives way to other threads, and sleeps once that has taken as long as ranks that
// compute side by side are apart. With more ranks than cores whoever looks without a pause takes the core from those
// whom it waits for.
class PatientWait {
 public:
  void pause() {
    if (std::chrono::steady_clock::now() - began_ < kPatience)
      std::this_thread::yield();
    else
      std::this_thread::sleep_for(kSleep);
  }

 private:
  static constexpr std::chrono::microseconds kPatience{200}, kSleep{50};
  const std::chrono::steady_clock::time_point began_ = std::chrono::steady_clock::now();
};

}  // namespace frugal
