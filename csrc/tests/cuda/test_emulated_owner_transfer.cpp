// The kernels by which ranks move rows for each other, run on a CPU, against the CPU's.
#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

#include "comm/cpu/owner_transfer.h"
#include "comm/cuda/owner_transfer.h"
#include "table/half_rows.h"
#include "tests/comm/owner_ranks.h"

namespace frugal::emulated_owner_transfer {
namespace {

using namespace owner_ranks;

constexpr cuda::Crossing kCrossings[] = {cuda::Crossing::kBus, cuda::Crossing::kBusToSmallTable};
constexpr std::int64_t kTableRows = 900;

struct Case {
  int ranks;
  RowLayout layout;
  std::int64_t rows;
};

std::vector<Case> cases() {
  std::vector<Case> found;
  for (const int ranks : {1, 2, 3, 4, 8})
    for (const std::int64_t dim : {1, 50, 200, 400})
      for (const RowElement element : {RowElement::kFloat32, RowElement::kFloat16})
        found.push_back({ranks, RowLayout::for_dim(dim, 1, element), dim == 200 ? 700 : 33});
  return found;
}

std::string name_of(const Case& each) {
  return std::to_string(each.ranks) + " ranks, " + std::to_string(each.layout.dim) + " columns of kind " +
         std::to_string(static_cast<int>(each.layout.element));
}

// With the same numbers each time, as rows of the case's kind.
Ranks filled(const Case& each) {
  Ranks ranks(each.ranks, each.layout, kTableRows, each.rows);
  std::mt19937 random(7);
  std::vector<float> values(static_cast<std::size_t>(each.layout.dim));
  const auto fill = [&](std::vector<float>& rows) {
    for (std::size_t at = 0; at < rows.size(); at += static_cast<std::size_t>(each.layout.stride)) {
      for (float& value : values) value = static_cast<float>(random() % 256) / 8;
      if (each.layout.is_half())
        round_embedding_to_nearest(each.layout, values.data(), rows.data() + at);
      else
        std::copy(values.begin(), values.end(), rows.begin() + static_cast<std::ptrdiff_t>(at));
      rows[at + static_cast<std::size_t>(each.layout.state_offset())] = static_cast<float>(random() % 100);
    }
  };
  fill(ranks.host);
  for (auto& slots : ranks.slots) fill(slots);
  return ranks;
}

// What is an embedding or a state of a record in floats; of what pads nothing is reported.
std::vector<float> known(const Ranks& ranks, std::vector<float> records, std::int64_t stride) {
  std::vector<float> found;
  for (std::size_t i = 0; i < records.size(); ++i)
    if (static_cast<std::int64_t>(i) % stride < ranks.layout.dim + 1) found.push_back(records[i]);
  return found;
}

TEST(EmulatedOwnerTransfer, PrefetchesBringEveryRankItsColumns) {
  for (const Case& each : cases())
    for (const cuda::Crossing crossing : kCrossings) {
      PlannedStep step = plan(1, kTableRows, each.rows, 2)[0];
      for (std::size_t u = 0; u < step.source.size(); u += 3) step.source[u] = 1;  // in a slot
      Ranks expected = filled(each), found = filled(each);
      const std::int64_t number = 1;
      for (int rank = 0; rank < each.ranks; ++rank) {
        expected.announce_all(number);
        found.announce_all(number);
        cpu::prefetch(expected.rows(rank), step.reads(), expected.records_of(0), number);
        unsigned turn = 0;
        // The number is prefetched with the rows, as another piece.
        const std::int64_t plan[] = {rank + 5, number};
        std::int64_t prefetched[] = {0, 0};
        const std::vector<float> block(3000, 2.0f);
        std::vector<float> there(block.size());
        const cuda::HostPiece pieces[] = {{there.data(), block.data(), 12000}, {prefetched, plan, 16}};
        cuda::prefetch(found.rows(rank), step.reads(), found.records_of(0), &prefetched[1], &turn, pieces,
                       {0, crossing});
        ASSERT_EQ(turn, 0);
        ASSERT_EQ(there, block);
        ASSERT_EQ(prefetched[0], rank + 5);
      }
      const std::int64_t stride = expected.memory().record_stride();
      for (int rank = 0; rank < each.ranks; ++rank) {
        const auto of_rank = static_cast<std::size_t>(rank);
        ASSERT_EQ(known(found, found.records[0][of_rank], stride),
                  known(expected, expected.records[0][of_rank], stride))
            << name_of(each);
        ASSERT_EQ(found.records[0][of_rank][0], -1.0f) << "whose row is in a slot, " << name_of(each);
        ASSERT_NE(found.records[0][of_rank][static_cast<std::size_t>(stride)], -1.0f) << name_of(each);
      }
    }
}

TEST(EmulatedOwnerTransfer, WriteBacksReachTheHostWithTheColumnsOfAllRanks) {
  for (const Case& each : cases())
    for (const cuda::Crossing crossing : kCrossings) {
      PlannedStep step = plan(2, kTableRows, each.rows, 4)[1];
      for (std::size_t u = 0; u < step.leave.size(); u += 4) step.leave[u] = RowDestination::kCache;
      Ranks expected = filled(each), found = filled(each);
      const std::vector<float> before = found.host;
      for (int rank = 0; rank < each.ranks; ++rank) {
        const std::int64_t number = 2;
        expected.announce_all(number);
        found.announce_all(number);
        cpu::write_back(expected.rows(rank), step.write_backs(), number);
        std::uint64_t counter = 0;
        unsigned turn = 0;
        cuda::write_back(found.rows(rank), step.write_backs(), {&counter, &number, &turn}, {0, crossing});
        ASSERT_EQ(counter, 2u);
        ASSERT_EQ(turn, 0u);
      }
      ASSERT_EQ(found.host, expected.host) << name_of(each);
      ASSERT_NE(found.host, before);
    }
}

TEST(EmulatedOwnerTransfer, EvictedRowsReachTheHostWithTheColumnsOfAllRanks) {
  for (const Case& each : cases()) {
    Ranks expected = filled(each), found = filled(each);
    std::vector<WriteBack> evicted;
    for (std::int64_t i = 0; i < each.rows; ++i)
      evicted.push_back({2 * i % kTableRows, 4, 2 * i % kTableRows, 5, static_cast<std::int32_t>(each.rows - 1 - i),
                         RowDestination::kHostRow});
    evicted.resize(static_cast<std::size_t>(std::min<std::int64_t>(each.rows, kTableRows / 2)));
    for (int rank = 0; rank < each.ranks; ++rank) {
      expected.announce_all(5);
      found.announce_all(5);
      cpu::write_back_evicted(expected.rows(rank), evicted.data(), static_cast<std::int64_t>(evicted.size()), 5);
      cuda::write_back_evicted(found.rows(rank), evicted.data(), static_cast<std::int64_t>(evicted.size()), 5, {});
    }
    ASSERT_EQ(found.host, expected.host) << name_of(each);
  }
}

TEST(EmulatedOwnerTransfer, WriteNothingBackOnceARankHasFailed) {
  Ranks ranks = filled({2, RowLayout::for_dim(40), 33});
  const std::vector<float> before = ranks.host;
  const PlannedStep step = plan(1, kTableRows, 33, 4)[0];
  ranks.failed = 1;  // and rank 1 has said nothing
  const std::int64_t number = 1;
  std::uint64_t counter = 0;
  unsigned turn = 0;
  cuda::write_back(ranks.rows(0), step.write_backs(), {&counter, &number, &turn}, {});
  EXPECT_EQ(ranks.host, before);
}

}  // namespace
}  // namespace frugal::emulated_owner_transfer
