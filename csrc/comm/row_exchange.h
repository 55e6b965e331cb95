// Rows between the ranks that look them up and the ranks that own them, and the sums of their gradients back.
//
// A rank's distinct rows of a step lie by owner, those of owner 0 first. Its inbox gets their values in that order, and
// in its outbox are the sums of their gradients. An owner has the rows of all ranks, those of rank 0 first.
//
//   send_values: an owner stores the values of a step into the inboxes of all ranks. Ends by telling, and hearing,
//                that.
//   fetch_sums: begins by telling, and hearing, that outboxes are full. An owner reads the sums of its rows there.
//
// Each step has one send_values and then one fetch_sums, by all ranks. By the time send_values stores, all ranks have
// read the inbox of the step before: they have told so by the fetch_sums behind it. By the time sums of a step are put
// into an outbox, all owners have read those of the step before: they have told so by the send_values behind it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "comm/rank_words.h"

namespace frugal {

// Where the boxes of all ranks are, as one of them addresses them: the buffer of a rank is its words, its inbox, and
// then its outbox.
struct RowExchange {
  RankWords words;
  float* inbox[kMostRanks];
  const float* outbox[kMostRanks];
  std::int64_t dim;
};

// Floats of a box, which are whole lines.
inline std::size_t box_floats(std::int64_t max_rows, std::int64_t dim) {
  constexpr std::size_t kLineFloats = kExchangeLine / sizeof(float);
  return (static_cast<std::size_t>(max_rows * dim) + kLineFloats - 1) / kLineFloats * kLineFloats;
}

// buffers: of all ranks, each of kRankWordBytes and two boxes. failed: as RankWords have it.
inline RowExchange row_exchange(int rank, const std::vector<char*>& buffers, const std::uint32_t* failed,
                                std::int64_t max_rows, std::int64_t dim) {
  RowExchange exchange{rank_words(rank, buffers, failed), {}, {}, dim};
  for (std::size_t each = 0; each < buffers.size(); ++each) {
    exchange.inbox[each] = reinterpret_cast<float*>(buffers[each] + kRankWordBytes);
    exchange.outbox[each] = exchange.inbox[each] + box_floats(max_rows, dim);
  }
  return exchange;
}

// Which of an owner's rows of a step are whose.
struct OwnedRows {
  std::int64_t begin[kMostRanks + 1];  // of each rank's among the owner's; the last one is their number
  std::int64_t place[kMostRanks];      // of the first of them in the boxes of that rank
};

}  // namespace frugal
