// A thread, or an error that says that there are no more.
#pragma once

#include <stdexcept>
#include <system_error>
#include <thread>
#include <utility>

namespace frugal {

struct ThreadShortage : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// Throws ThreadShortage when the system refuses.
template <typename Body>
std::thread start_thread(Body&& body) {
  try {
    return std::thread(std::forward<Body>(body));
  } catch (const std::system_error&) {
    throw ThreadShortage("The system gives this process no more threads.");
  }
}

}  // namespace frugal
