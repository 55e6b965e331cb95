// Threads, or an error that says that there are no more.
#pragma once

#include <stdexcept>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

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

// Adds `count` threads, of which number i runs body(i). If one of them cannot be had end() is called, which has to end
// the threads that run, since no destructor will be; then as start_thread.
template <typename Body, typename End>
void start_threads(std::vector<std::thread>& threads, int count, Body body, End end) {
  try {
    for (int i = 0; i < count; ++i) threads.push_back(start_thread([body, i] { body(i); }));
  } catch (...) {
    end();
    throw;
  }
}

}  // namespace frugal
