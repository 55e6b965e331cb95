#include "comm/rank_words.h"

#include <atomic>
#include <thread>

namespace frugal::cpu {
namespace {

// atomic_ref is for what may be changed, which nobody does here.
template <typename T>
T load_acquire(const T* from) {
  return std::atomic_ref(const_cast<T&>(*from)).load(std::memory_order_acquire);
}

}  // namespace

void tell(const RankWords& words, std::uint64_t number) {
  for (int other = 0; other < words.ranks; ++other)
    if (other != words.rank) std::atomic_ref(*words.tell[other]).store(number, std::memory_order_release);
}

bool hear(const RankWords& words, std::uint64_t number) {
  for (int other = 0; other < words.ranks; ++other)
    while (other != words.rank && load_acquire(words.hear[other]) < number) {
      if (load_acquire(words.failed)) return true;
      std::this_thread::yield();
    }
  return false;
}

}  // namespace frugal::cpu
