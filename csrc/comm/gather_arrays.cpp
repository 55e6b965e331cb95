#include "comm/gather_arrays.h"

#include <algorithm>
#include <stdexcept>

namespace frugal {

void check_room(const HostExchange& exchange, std::span<const GatheredArray> arrays) {
  std::int64_t floats = 0;
  for (const GatheredArray& array : arrays) floats += array.room();
  if (floats > exchange.floats().scores)
    throw std::invalid_argument("the exchange has too little room for what a rank publishes");
}

bool gather_arrays(HostExchange& exchange, std::span<const GatheredArray> arrays) {
  check_room(exchange, arrays);
  const int own = exchange.rank();
  bool complete = exchange.barrier();
  if (complete) {
    float* to = exchange.part(ExchangeRegion::kScores, own);
    for (const GatheredArray& array : arrays)
      to = std::copy_n(array.row(own), array.floats, to) + array.room() - array.floats;
    complete = exchange.barrier();
  }
  for (int rank = 0; rank < exchange.ranks(); ++rank) {
    if (rank == own) continue;
    const float* from = exchange.part(ExchangeRegion::kScores, rank);
    for (const GatheredArray& array : arrays) {
      std::copy_n(complete ? from : array.row(own), array.floats, array.row(rank));
      from += array.room();
    }
  }
  return complete;
}

}  // namespace frugal
