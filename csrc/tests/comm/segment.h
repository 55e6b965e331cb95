// What the ranks of a test share: the memory of an exchange, zeroed.
#pragma once

#include <cstddef>
#include <vector>

#include "comm/host_exchange.h"

namespace frugal {

class Segment {
 public:
  Segment(int ranks, const ExchangeFloats& floats)
      : ranks_(ranks), floats_(floats), lines_(HostExchange::bytes_needed(ranks, floats) / kExchangeLine + 1) {}

  std::byte* data() { return reinterpret_cast<std::byte*>(lines_.data()); }
  std::size_t bytes() const { return lines_.size() * kExchangeLine; }
  // The side of one rank.
  HostExchange exchange(int rank, const ExchangeRules& rules = {}) {
    return {data(), bytes(), rank, ranks_, floats_, rules};
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
