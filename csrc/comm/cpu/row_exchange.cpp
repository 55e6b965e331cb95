#include "comm/cpu/row_exchange.h"

#include <algorithm>

namespace frugal::cpu {
namespace {

// body(rank, first, place, count): floats of each rank's rows, from the owner's first one and from its place in a box.
template <typename Body>
void for_ranks(const RowExchange& exchange, const OwnedRows& owned, Body body) {
  for (int rank = 0; rank < exchange.words.ranks; ++rank)
    body(rank, owned.begin[rank] * exchange.dim, owned.place[rank] * exchange.dim,
         (owned.begin[rank + 1] - owned.begin[rank]) * exchange.dim);
}

}  // namespace

void send_values(const RowExchange& exchange, const OwnedRows& owned, const float* values, std::uint64_t number) {
  for_ranks(exchange, owned, [&](int rank, std::int64_t first, std::int64_t place, std::int64_t count) {
    std::copy_n(values + first, count, exchange.inbox[rank] + place);
  });
  tell(exchange.words, number);
  hear(exchange.words, number);  // if somebody has failed, nobody uses what follows
}

void fetch_sums(const RowExchange& exchange, const OwnedRows& owned, float* sums, std::uint64_t number) {
  tell(exchange.words, number);
  if (hear(exchange.words, number)) return;
  for_ranks(exchange, owned, [&](int rank, std::int64_t first, std::int64_t place, std::int64_t count) {
    std::copy_n(exchange.outbox[rank] + place, count, sums + first);
  });
}

}  // namespace frugal::cpu
