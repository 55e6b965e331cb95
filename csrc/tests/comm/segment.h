// What the ranks of a test share: the memory of an exchange, zeroed.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "comm/host_exchange.h"
#include "tests/comm/eventually.h"

namespace frugal {

class Segment {
 public:
  Segment(int ranks, const ExchangeFloats& floats)
      : ranks_(ranks), floats_(floats), lines_(HostExchange::bytes_needed(ranks, floats) / kExchangeLine + 1) {}

  int ranks() const { return ranks_; }
  std::byte* data() { return reinterpret_cast<std::byte*>(lines_.data()); }
  std::size_t bytes() const { return lines_.size() * kExchangeLine; }
  // The side of one rank.
  HostExchange exchange(int rank, const ExchangeRules& rules = {}) {
    return {data(), bytes(), rank, ranks_, floats_, rules};
  }

  // Waits until `rank` has entered as many collectives. What it reads of the one before has been read then.
  void await_posted(int rank, std::uint64_t collectives) {
    std::uint64_t& posted = reinterpret_cast<ExchangeWords*>(data())->word[rank].posted;
    eventually([&] { return std::atomic_ref(posted).load(std::memory_order_acquire) >= collectives; });
  }

 private:
  struct alignas(kExchangeLine) Line {
    std::byte bytes[kExchangeLine] = {};
  };
  const int ranks_;
  const ExchangeFloats floats_;
  std::vector<Line> lines_;
};

}  // namespace frugal
