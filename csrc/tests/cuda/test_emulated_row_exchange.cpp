// The kernels by which ranks exchange rows, run on a CPU, against the CPU's.
#include <gtest/gtest.h>

#include <numeric>
#include <vector>

#include "comm/cpu/row_exchange.h"
#include "comm/cuda/row_exchange.h"
#include "tests/comm/row_exchange_ranks.h"

namespace frugal::emulated_row_exchange {
namespace {

using namespace row_exchange_ranks;

TEST(EmulatedRowExchange, MovesWhatTheCpuMoves) {
  for (const int count : {1, 2, 3, 8})
    for (const std::int64_t dim : {1, 3, 4, 32, 50})
      for (const std::int64_t most : {0, 7, 60}) {
        RowRanks expected(count, most * count, dim), found(count, most * count, dim);
        const auto counts = counts_of(count, most, static_cast<unsigned>(count + dim));
        for (RowRanks* const ranks : {&expected, &found})
          for (int rank = 0; rank < count; ++rank) {
            float* const outbox = ranks->outbox(rank);
            std::iota(outbox, outbox + most * count * dim, 1000.0f * static_cast<float>(rank));
            for (int other = 0; other < count; ++other)
              if (other != rank) *ranks->of(other).words.tell[rank] = 2;  // nobody waits
          }
        for (int rank = 0; rank < count; ++rank) {
          const OwnedRows owned = owned_by(rank, counts);
          const auto floats = static_cast<std::size_t>(owned.begin[count] * dim);
          std::vector<float> values(floats + 1), sums(floats + 1), same(floats + 1);
          std::iota(values.begin(), values.end(), 0.5f);
          unsigned turn = 0;
          cpu::send_values(expected.of(rank), owned, values.data(), 1);
          cuda::send_values(found.of(rank), owned, values.data(), 1, &turn, 0);
          ASSERT_EQ(turn, 0U);
          cpu::fetch_sums(expected.of(rank), owned, sums.data(), 2);
          cuda::fetch_sums(found.of(rank), owned, same.data(), 2, 0);
          ASSERT_EQ(same, sums);
          ASSERT_TRUE(count == 1 || *found.of(rank).words.tell[rank == 0] == 2);
        }
        for (int rank = 0; rank < count; ++rank)
          ASSERT_EQ(std::vector<float>(found.inbox(rank), found.inbox(rank) + most * count * dim),
                    std::vector<float>(expected.inbox(rank), expected.inbox(rank) + most * count * dim));
      }
}

TEST(EmulatedRowExchange, LeavesSumsOnceSomebodyHasFailed) {
  RowRanks ranks(2, 4, 4);
  ranks.failed = 1;
  std::vector<float> sums(8, 5.0f);
  cuda::fetch_sums(ranks.of(0), owned_by(0, {{1, 0}, {1, 0}}), sums.data(), 2, 0);
  EXPECT_EQ(sums, std::vector<float>(8, 5.0f));
}

}  // namespace
}  // namespace frugal::emulated_row_exchange
