// A place where threads, of any process, sleep until a condition that others change may have become true.
//
// Zero-initialised memory is a valid Event, so it can lie in a shared segment. A notifier changes the condition (an
// atomic) first and calls notify; nothing is lost because a waiter reads the ticket before it looks at the condition.
// Not std::atomic::wait: that may sleep on a process-private address.
#pragma once

#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <climits>
#include <cstdint>

#include "base/parallel/spin.h"

namespace frugal {

class Event {
 public:
  std::uint32_t ticket() const { return sequence_.load(std::memory_order_acquire); }

  // Sleeps unless notify was called since `ticket` was read; at most `microseconds`. May wake for no reason.
  void wait(std::uint32_t ticket, std::int64_t microseconds) {
    // seq_cst on sleepers_ and sequence_: either notify sees the sleeper, or the sleeper's futex call sees the new
    // sequence.
    sleepers_.fetch_add(1, std::memory_order_seq_cst);
    timespec timeout{static_cast<time_t>(microseconds / 1'000'000), static_cast<long>(microseconds % 1'000'000 * 1000)};
    syscall(SYS_futex, reinterpret_cast<std::uint32_t*>(&sequence_), FUTEX_WAIT, ticket, &timeout, nullptr, 0);
    sleepers_.fetch_sub(1, std::memory_order_seq_cst);
  }

  // Wakes all sleepers. Without a sleeper: two atomic operations, no system call.
  void notify() {
    sequence_.fetch_add(1, std::memory_order_seq_cst);
    if (sleepers_.load(std::memory_order_seq_cst) != 0)
      syscall(SYS_futex, reinterpret_cast<std::uint32_t*>(&sequence_), FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
  }

 private:
  static_assert(sizeof(std::atomic<std::uint32_t>) == 4 && std::atomic<std::uint32_t>::is_always_lock_free);
  std::atomic<std::uint32_t> sequence_;
  std::atomic<std::uint32_t> sleepers_;
};

}  // namespace frugal
