// Rows that cross the bus during the computation, to the host and from there: kernels, run on a CPU, against the CPU's.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

#include "rows/cpu/plan_kernels.h"
#include "rows/cuda/prefetch.h"
#include "rows/cuda/host_pieces.h"
#include "rows/cuda/plan_kernels.h"

namespace frugal::emulated_returns {
namespace {

// Whole numbers, so that a row that is taken for another one shows.
std::vector<float> drawn(std::int64_t count, std::mt19937& random) {
  std::vector<float> values(count);
  for (float& value : values) value = static_cast<float>(random() % 1000);
  return values;
}

constexpr cuda::Crossing kCrossings[] = {cuda::Crossing::kBus, cuda::Crossing::kBusToSmallTable,
                                         cuda::Crossing::kBusAwaited, cuda::Crossing::kNone};

TEST(EmulatedWriteBacks, StoreTheWantedRowsAndNoOthers) {
  std::mt19937 random(1);
  for (const std::int64_t dim : {1, 30, 64, 150, 400, 700})
    for (const std::int64_t count : {1, 31, 100, 700}) {
      const std::int64_t stride = (dim + 4) / 4 * 4;
      std::vector<float> slots = drawn(count * stride, random), table(2 * count * stride, -1.0f);
      std::vector<std::int64_t> rows(count), target(count);
      std::vector<RowDestination> leave(count);
      for (std::int64_t u = 0; u < count; ++u) {
        rows[u] = 2 * u + random() % 2;
        target[u] = count - 1 - u;
        leave[u] = random() % 3 == 0   ? RowDestination::kCache
                   : random() % 4 == 0 ? RowDestination::kPublishedBeforeSync
                                       : RowDestination::kWriteBackBuffer;
      }
      for (const RowDestination wanted : {RowDestination::kWriteBackBuffer, RowDestination::kPublishedBeforeSync}) {
        const RowWriteBacks write_backs{rows.data(), leave.data(), target.data(), count, wanted};
        std::vector<float> found = table, expected = table;
        RowMemory memory{dim, stride, expected.data(), slots.data()};
        cpu::write_back_rows(memory, write_backs);
        for (const cuda::Crossing crossing : kCrossings) {
          found = table;
          memory.host_rows = found.data();
          cuda::write_back_rows(memory, write_backs, {0, crossing});
          ASSERT_EQ(found, expected) << dim << " floats, " << count << " rows, crossing " << static_cast<int>(crossing);
        }
        if (count == 700) {
          ASSERT_NE(found, table);
        }
      }
    }
}

// Behind the cache of `count` slots is a write-back buffer of as many: rows are evicted from the cache into the buffer,
// and written back.
TEST(EmulatedWriteBacks, TakeWithThemWhatTheStepPutsOut) {
  std::mt19937 random(5);
  for (const std::int64_t dim : {1, 30, 150, 400})
    for (const std::int64_t count : {1, 31, 700}) {
      const std::int64_t stride = (dim + 4) / 4 * 4;
      std::vector<float> slots = drawn(2 * count * stride, random), table(3 * count * stride, -1.0f);
      std::vector<std::int64_t> rows(count), target(count), evicted(count);
      std::vector<RowDestination> leave(count);
      for (std::int64_t u = 0; u < count; ++u) {
        rows[u] = u;
        const bool stays = random() % 3 > 0;
        leave[u] = stays ? RowDestination::kCache : RowDestination::kWriteBackBuffer;
        target[u] = stays ? count - 1 - u : count + u;
        evicted[u] = stays && random() % 2 == 0 ? 3 * count - 1 - u : -1;
      }
      const RowEvictions evictions{evicted.data(), &count};
      std::vector<float> aside = slots, expected = slots;
      for (std::int64_t u = 0; u < count; ++u)
        for (std::int64_t i = 0; evicted[u] >= 0 && i < stride; ++i)
          expected[(count + u) * stride + i] = slots[target[u] * stride + i];
      RowMemory memory{dim, stride, table.data(), aside.data()};
      cuda::stage_evicted(memory, evictions, target.data(), count, {});
      ASSERT_EQ(aside, expected) << dim << " floats, " << count << " rows";
      aside = slots;
      cpu::stage_evicted(memory, evictions, target.data(), count);
      ASSERT_EQ(aside, expected);
      const RowWriteBacks write_backs{rows.data(), leave.data(), target.data(), count, RowDestination::kWriteBackBuffer,
                                      evictions};
      std::vector<float> host = table;
      for (std::int64_t u = 0; u < count; ++u) {
        const std::int64_t row = evicted[u] >= 0 ? evicted[u] : leave[u] == RowDestination::kWriteBackBuffer ? u : -1;
        if (row >= 0) std::copy_n(aside.begin() + (count + u) * stride, stride, host.begin() + row * stride);
      }
      for (const cuda::Crossing crossing : kCrossings) {
        std::vector<float> found = table;
        memory.host_rows = found.data();
        cuda::write_back_rows(memory, write_backs, {0, crossing});
        ASSERT_EQ(found, host) << dim << " floats, " << count << " rows, crossing " << static_cast<int>(crossing);
      }
      std::vector<float> found = table;
      memory.host_rows = found.data();
      cpu::write_back_rows(memory, write_backs);
      ASSERT_EQ(found, host);
    }
}

TEST(EmulatedWriteBacks, ArePublishedOnceByTheLastBlockAndAgainByTheNextKernel) {
  for (const std::int64_t count : {0, 1, 700, 5000})
    for (const cuda::Crossing crossing : kCrossings) {
      constexpr std::int64_t kDim = 8, kStride = 12;
      std::vector<float> slots(std::max<std::int64_t>(1, count) * kStride, 3.0f), table(slots.size());
      std::vector<std::int64_t> rows(count), target(count);
      for (std::int64_t u = 0; u < count; ++u) rows[u] = target[u] = u;
      const std::vector<RowDestination> leave(count, RowDestination::kWriteBackBuffer);
      const RowMemory memory{kDim, kStride, table.data(), slots.data()};
      const RowWriteBacks write_backs{rows.data(), leave.data(), target.data(), count};
      std::uint64_t counter = 0;
      unsigned turn = 0;
      for (const std::int64_t step : {5, 6}) {
        cuda::write_back_rows(memory, write_backs, {0, crossing}, {&counter, &step, &turn});
        ASSERT_EQ(counter, step) << count << " rows, crossing " << static_cast<int>(crossing);
        ASSERT_EQ(turn, 0);
      }
      cuda::write_back_rows(memory, write_backs, {0, crossing});
      ASSERT_EQ(counter, 6);
      if (count > 0) {
        ASSERT_EQ(table, slots);
      }
    }
}

TEST(EmulatedPieces, AreFetchedTogether) {
  std::vector<float> from(9000), to(from.size());
  for (std::size_t i = 0; i < from.size(); ++i) from[i] = static_cast<float>(i + 1);
  const auto piece = [&](std::int64_t first, std::int64_t floats) {
    return cuda::HostPiece{to.data() + first, from.data() + first, 4 * floats};
  };
  const cuda::HostPiece pieces[] = {piece(0, 4), piece(8, 8000), piece(8008, 0), piece(8500, 400)};
  cuda::fetch(pieces, {});
  for (std::size_t i = 0; i < to.size(); ++i) {
    const bool fetched = i < 4 || (i >= 8 && i < 8008) || (i >= 8500 && i < 8900);
    ASSERT_EQ(to[i], fetched ? from[i] : 0.0f) << i;
  }
}

TEST(EmulatedPrefetches, BringTheRowsOfTheHostAndNoOthers) {
  std::mt19937 random(2);
  for (const std::int64_t dim : {1, 30, 64, 150, 400, 3000})
    for (const std::int64_t count : {1, 31, 100, 700}) {
      const std::int64_t stride = (dim + 4) / 4 * 4;
      std::vector<float> table = drawn(2 * count * stride, random);
      std::vector<float> slots(count * stride), before(count * stride, -1.0f);
      std::vector<std::int64_t> rows(count);
      std::vector<std::int32_t> source(count);
      for (std::int64_t u = 0; u < count; ++u) {
        rows[u] = 2 * u + random() % 2;
        source[u] = random() % 3 != 0 ? kFromHost : random() % 2 == 0 ? kFromHostLate : static_cast<std::int32_t>(u);
      }
      const RowMemory memory{dim, stride, table.data(), slots.data()};
      const RowReads reads{rows.data(), source.data(), count, ReadPart::kHost};
      std::vector<float> expected = before;
      cpu::gather(memory, reads, expected.data());
      for (const cuda::Crossing crossing : kCrossings) {
        std::vector<float> found = before;
        cuda::gather(memory, reads, found.data(), {0, crossing});
        ASSERT_EQ(found, expected) << dim << " floats, " << count << " rows, crossing " << static_cast<int>(crossing);
      }
    }
}

// More than blocks list at a time, of short rows and of long ones.
TEST(EmulatedPrefetches, AndWriteBacksLookAtPlansOfAnyLength) {
  std::mt19937 random(4);
  constexpr std::int64_t kCount = 4500;
  for (const std::int64_t dim : {8, 260}) {
    const std::int64_t stride = dim + 4;
    std::vector<float> table = drawn(kCount * stride, random), records(table.size(), -1.0f);
    std::vector<std::int64_t> rows(kCount);
    std::vector<std::int32_t> source(kCount);
    std::vector<RowDestination> leave(kCount);
    for (std::int64_t u = 0; u < kCount; ++u) {
      rows[u] = kCount - 1 - u;
      source[u] = random() % 4 == 0 ? 0 : kFromHost;
      leave[u] = random() % 4 == 0 ? RowDestination::kCache : RowDestination::kWriteBackBuffer;
    }
    RowMemory memory{dim, stride, table.data(), table.data()};
    const RowReads reads{rows.data(), source.data(), kCount, ReadPart::kHost};
    const RowWriteBacks write_backs{rows.data(), leave.data(), rows.data(), kCount, RowDestination::kWriteBackBuffer};
    std::vector<float> prefetched = records, returned = records;
    cpu::gather(memory, reads, prefetched.data());
    memory.host_rows = returned.data();
    cpu::write_back_rows(memory, write_backs);
    for (const cuda::Crossing crossing : kCrossings) {
      std::vector<float> found = records;
      memory.host_rows = table.data();
      cuda::gather(memory, reads, found.data(), {0, crossing});
      ASSERT_EQ(found, prefetched) << dim << " floats, crossing " << static_cast<int>(crossing);
      found = records;
      memory.host_rows = found.data();
      cuda::write_back_rows(memory, write_backs, {0, crossing});
      ASSERT_EQ(found, returned) << dim << " floats, crossing " << static_cast<int>(crossing);
    }
  }
}

TEST(EmulatedPrefetches, BringPiecesBesideRows) {
  std::mt19937 random(3);
  for (const std::int64_t count : {0, 1, 700})
    for (const std::int64_t floats : {0, 4, 300, 40000}) {
      constexpr std::int64_t kDim = 30, kStride = 32;
      std::vector<float> table = drawn(2 * (count + 1) * kStride, random), records(count * kStride, -1.0f);
      std::vector<std::int64_t> rows(count);
      std::vector<std::int32_t> source(count);
      for (std::int64_t u = 0; u < count; ++u) {
        rows[u] = 2 * u + random() % 2;
        source[u] = random() % 3 != 0 ? kFromHost : static_cast<std::int32_t>(u);
      }
      const RowMemory memory{kDim, kStride, table.data()};
      const RowReads reads{rows.data(), source.data(), count, ReadPart::kHost};
      std::vector<float> expected = records, from = drawn(floats + 16, random);
      cpu::gather(memory, reads, expected.data());
      for (const cuda::Crossing crossing : kCrossings) {
        std::vector<float> found = records, to(from.size(), -1.0f), small(20, -1.0f);
        const cuda::HostPiece pieces[] = {{to.data(), from.data(), 4 * floats}, {small.data() + 4, from.data(), 16}};
        cuda::prefetch(memory, reads, found.data(), pieces, {0, crossing});
        ASSERT_EQ(found, expected) << count << " rows, " << floats << " floats, crossing "
                                   << static_cast<int>(crossing);
        for (std::int64_t i = 0; i < floats + 16; ++i) ASSERT_EQ(to[i], i < floats ? from[i] : -1.0f) << i;
        for (std::int64_t i = 0; i < 20; ++i) ASSERT_EQ(small[i], i >= 4 && i < 8 ? from[i - 4] : -1.0f) << i;
      }
    }
}

}  // namespace
}  // namespace frugal::emulated_returns
