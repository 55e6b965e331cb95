// A process with little room left, in tests of what happens where threads cannot be had. Not under sanitizers, which
// need address space of their own: FRUGAL_SANITIZED is defined there.
#pragma once

#include <sys/resource.h>
#include <unistd.h>

#include <fstream>

#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define FRUGAL_SANITIZED
#endif
#endif

namespace frugal {

// From now on this process gets no more address space than so many bytes more than it has.
inline void leave_room(rlim_t bytes) {
  rlimit limit{};
  getrlimit(RLIMIT_AS, &limit);
  rlim_t pages = 0;
  std::ifstream("/proc/self/statm") >> pages;
  limit.rlim_cur = pages * static_cast<rlim_t>(sysconf(_SC_PAGESIZE)) + bytes;
  setrlimit(RLIMIT_AS, &limit);
}

// As much again as it may have.
inline void leave_all_room() {
  rlimit limit{};
  getrlimit(RLIMIT_AS, &limit);
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_AS, &limit);
}

}  // namespace frugal
