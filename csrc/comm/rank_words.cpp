#include "comm/rank_words.h"

#include <atomic>
#include <thread>

namespace frugal {
namespace {

std::uint64_t* word_of(char* buffer, int kind, int rank) {
  return reinterpret_cast<std::uint64_t*>(buffer + static_cast<std::size_t>(kind * kMostRanks + rank) * kExchangeLine);
}

// atomic_ref is for what may be changed, which nobody does here.
template <typename T>
T load_acquire(const T* from) {
  return std::atomic_ref(const_cast<T&>(*from)).load(std::memory_order_acquire);
}

}  // namespace

RankWords rank_words(int rank, const std::vector<char*>& buffers, const std::uint32_t* failed, int kind) {
  RankWords words{rank, static_cast<int>(buffers.size()), {}, {}, failed};
  for (int other = 0; other < words.ranks; ++other) {
    words.tell[other] = word_of(buffers[static_cast<std::size_t>(other)], kind, rank);
    words.hear[other] = word_of(buffers[static_cast<std::size_t>(rank)], kind, other);
  }
  return words;
}

namespace cpu {

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

}  // namespace cpu
}  // namespace frugal
