// RowRanks as threads exchange rows and sums of gradients, some of them slow.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <random>
#include <thread>
#include <vector>

#include "comm/cpu/row_exchange.h"
#include "tests/at_once.h"
#include "tests/comm/row_exchange_ranks.h"

namespace frugal::test_row_exchange {
namespace {

using namespace row_exchange_ranks;

constexpr std::int64_t kMost = 12, kSteps = 150;

void pause(std::mt19937& random) {
  if (random() % 5 == 0) std::this_thread::sleep_for(std::chrono::microseconds(random() % 300));
}

TEST(RowExchange, ValuesReachWhoAsksAndSumsReachOwners) {
  for (const int count : {1, 2, 3, 5, 8})
    for (const std::int64_t dim : {3, 8}) {
      RowRanks ranks(count, kMost * count, dim);
      at_once(count, [&](int rank) {
        std::mt19937 random(static_cast<unsigned>(rank));
        const RowExchange exchange = ranks.of(rank);
        const auto fail = [&](std::int64_t step) {
          std::atomic_ref(ranks.failed).store(1);  // so that nobody waits for this one
          ADD_FAILURE() << "step " << step << " of rank " << rank << " of " << count;
        };
        for (std::int64_t step = 0; step < kSteps; ++step) {
          const auto counts = counts_of(count, kMost, static_cast<unsigned>(step));
          const OwnedRows owned = owned_by(rank, counts);
          std::vector<float> values, expected, sums;
          const auto add_rows = [&](std::vector<float>& to, int from, int owner) {
            const std::int64_t rows = counts[static_cast<std::size_t>(from)][static_cast<std::size_t>(owner)];
            for (std::int64_t row = 0; row < rows; ++row)
              for (std::int64_t column = 0; column < dim; ++column)
                to.push_back(value_of(from, owner, row, column, step));
          };
          for (int from = 0; from < count; ++from) add_rows(values, from, rank);
          pause(random);
          cpu::send_values(exchange, owned, values.data(), static_cast<std::uint64_t>(2 * step + 1));
          for (int owner = 0; owner < count; ++owner) add_rows(expected, rank, owner);
          pause(random);
          if (!std::equal(expected.begin(), expected.end(), ranks.inbox(rank))) return fail(step);
          for (std::size_t i = 0; i < expected.size(); ++i) ranks.outbox(rank)[i] = -expected[i];
          sums.assign(values.size(), 0.0f);
          cpu::fetch_sums(exchange, owned, sums.data(), static_cast<std::uint64_t>(2 * step + 2));
          for (float& value : values) value = -value;
          if (sums != values) return fail(step);
        }
      });
    }
}

TEST(RowExchange, NobodyWaitsOnceSomebodyHasFailed) {
  RowRanks ranks(2, 4, 4);
  ranks.failed = 1;
  const OwnedRows owned = owned_by(0, {{1, 0}, {1, 0}});
  const std::vector<float> values(8, 1.0f);
  std::vector<float> sums(8, 5.0f);
  cpu::send_values(ranks.of(0), owned, values.data(), 1);
  cpu::fetch_sums(ranks.of(0), owned, sums.data(), 2);
  EXPECT_EQ(sums, std::vector<float>(8, 5.0f));
}

}  // namespace
}  // namespace frugal::test_row_exchange
