// Whether another process of the machine has ended.
#pragma once

#include <poll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>

namespace frugal {

// process: a pidfd, which tells the process from a later one with its number and sees a zombie as ended; -1: it is
// opened now, and to be closed by the caller.
inline bool process_ended(int& process, int pid) {
  if (process < 0) process = static_cast<int>(syscall(SYS_pidfd_open, pid, 0));
  if (process < 0) return errno == ESRCH;
  pollfd state{process, POLLIN, 0};
  return poll(&state, 1, 0) == 1;
}

}  // namespace frugal
