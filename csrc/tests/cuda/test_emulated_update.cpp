// The update kernel, run on a CPU, against the plain loops of table/.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <numeric>
#include <random>
#include <tuple>
#include <vector>

#include "busy_rows.h"
#include "rows/cuda/row_updates.h"
#include "table/row_layout.h"
#include "table/row_adagrad.h"

namespace frugal::emulated_update {
namespace {

constexpr std::int64_t kRows = 24;

struct Entry {
  std::int64_t stride;  // of values: long rows are whole words of 16 bytes
  std::vector<float> values, squares;
  std::vector<std::int32_t> offset{0}, order;
};

// Rows with 0 to 3 occurrences, a few with more than one warp or one round of a block takes, or hot. last: the scale of
// the last columns.
Entry random_entry(std::int64_t dim, float scale, float last, int which, std::mt19937& random) {
  Entry entry;
  entry.stride = dim > 20 ? (dim + 3) / 4 * 4 : dim;
  for (std::int64_t u = 0; u < kRows; ++u) {
    const auto most = dim > 300 ? 200 : dim > 10 ? 400 : 2500;
    entry.offset.push_back(entry.offset.back() +
                           static_cast<std::int32_t>(u % 7 == which ? 5 + random() % most : random() % 4));
  }
  entry.order.resize(entry.offset.back());
  std::iota(entry.order.begin(), entry.order.end(), 0);
  std::shuffle(entry.order.begin(), entry.order.end(), random);
  std::normal_distribution<float> normal;
  const auto count = static_cast<std::int64_t>(entry.order.size());
  entry.values.resize(count * entry.stride);
  for (std::int64_t i = 0; i < count; ++i)
    for (std::int64_t j = 0; j < dim; ++j)
      entry.values[i * entry.stride + j] = (j < dim - 20 ? scale : last) * normal(random);
  entry.squares.resize(entry.order.size());
  cuda::mean_squares(entry.values.data(), entry.stride, count, dim, entry.squares.data(), {});
  for (std::int64_t i = 0; i < count; ++i)
    EXPECT_EQ(entry.squares[i], mean_square(&entry.values[i * entry.stride], dim));
  return entry;
}

// A table, and what is to become of its rows.
struct Case {
  const std::int64_t dim;
  const std::int32_t used;  // rows; the others only pad
  RowMemory memory{};
  std::vector<float> records, cache, staging;
  Entry entries[2];
  std::vector<RowDestination> leave;
  std::vector<std::int64_t> target;
  StepGradients gradients{};
  std::vector<std::int32_t> busy;

  Case(std::int64_t width, float scale, float last, int entry_count, std::int32_t rows, std::mt19937& random)
      : dim(width),
        used(rows),
        entries{random_entry(dim, scale, last, 0, random), random_entry(dim, scale, last, 1, random)} {
    memory.dim = dim;
    memory.stride = RowLayout::for_dim(dim).stride;
    records.resize(kRows * memory.stride);
    cache.resize(records.size());
    for (float& value : records) value = 0.1f * static_cast<float>(random() % 1000);
    for (std::int64_t u = 0; u < kRows; u += 5) records[u * memory.stride + dim] = 0.0f;  // a new row
    gradients.entries = entry_count;
    for (int e = 0; e < entry_count; ++e)
      gradients.entry[e] = {entries[e].values.data(), entries[e].stride, entries[e].offset.data(),
                            e == 1 ? entries[e].order.data() : nullptr, entries[e].squares.data()};
    busy = busy_rows(gradients, kRows);
    if (entry_count > 0) gradients.busy = busy.data();
    std::int64_t staged = 0;
    for (std::int64_t u = 0; u < kRows; ++u) {
      leave.push_back(u % 3 == 0   ? RowDestination::kCache
                      : u % 3 == 1 ? RowDestination::kValue
                                   : RowDestination::kGradient);
      target.push_back(leave[u] == RowDestination::kCache ? u : staged);
      if (leave[u] == RowDestination::kValue) staged += memory.stride;
      for (int e = 0; leave[u] == RowDestination::kGradient && e < entry_count; ++e)
        staged += memory.stride * (entries[e].offset[u + 1] - entries[e].offset[u]);
    }
    staging.resize(staged);
    memory.cache = cache.data();
    memory.staging = staging.data();
  }
  TableUpdate update() const {
    return {memory, {leave.data(), target.data(), kRows, &used}, records.data(), gradients};
  }
  void expect_bits_of_the_host() const {
    const RowAdagrad adagrad{0.1f};
    for (std::int64_t u = 0; u < kRows; ++u) {
      const float* record = records.data() + u * memory.stride;
      std::vector<float> row(record, record + dim + 1);
      const float* left = leave[u] == RowDestination::kCache ? &cache[u * memory.stride] : staging.data() + target[u];
      for (int e = 0; e < gradients.entries; ++e) {
        const EntryGradients& entry = gradients.entry[e];
        const std::int32_t begin = entry.offset[u], end = entry.offset[u + 1];
        for (std::int32_t i = begin; i < end && leave[u] == RowDestination::kGradient; ++i, left += memory.stride)
          ASSERT_EQ(std::memcmp(left, entry.occurrence(i), dim * sizeof(float)), 0) << dim << ", row " << u;
        for (std::int32_t i = begin; i < end; ++i) adagrad.accumulate(row[dim], entry.occurrence(i), dim);
        for (std::int32_t i = begin; i < end; ++i) adagrad.apply(row.data(), row[dim], entry.occurrence(i), dim);
      }
      if (leave[u] == RowDestination::kGradient) continue;
      if (u >= used && gradients.entries == 0) row.assign(row.size(), 0.0f);  // left alone
      ASSERT_EQ(std::memcmp(left, row.data(), row.size() * sizeof(float)), 0) << dim << ", row " << u;
    }
  }
};

// The scales reach gradients of usual size, subnormal ones, and none at all; rows have more occurrences than a block
// has threads, and more columns, or than a warp has registers for, of which only the last are of no usual size.
TEST(EmulatedUpdate, GivesTheBitsOfTheHost) {
  std::mt19937 random(1);
  const std::tuple<std::int64_t, float, float> cases[] = {{1, 1e-40f, 1e-40f}, {7, 1.0f, 1.0f},
                                                          {127, 0.0f, 0.0f},   {400, 1.0f, 1.0f},
                                                          {600, 1.0f, 1e-40f}, {600, 1e-40f, 1.0f},
                                                          {100, 1.0f, 1e-40f}, {128, 1.0f, 1.0f},
                                                          {50, 1.0f, 1.0f},    {127, 1.0f, 1e-40f},
                                                          {200, 1.0f, 1e-40f}, {256, 1.0f, 1.0f}};
  for (const auto& [dim, scale, last] : cases) {
    SCOPED_TRACE(testing::Message() << scale << ", " << last);
    const Case one(dim, scale, last, 2, kRows, random), two(3, scale, last, 1, kRows, random);
    const Case three(40, scale, last, 0, 10, random);
    const TableUpdate updates[] = {one.update(), two.update(), three.update()};
    cuda::update({updates, dim == 7 ? 1u : 3u}, 0.1f, {});
    one.expect_bits_of_the_host();
    if (dim == 7) continue;
    two.expect_bits_of_the_host();
    three.expect_bits_of_the_host();
  }
}

// Of ranks whose mean squares of their own columns are 0, but for one of them: the bits of their mean.
TEST(EmulatedUpdate, TakesTheMeanOfTheMeanSquaresOfRanks) {
  std::mt19937 random(2);
  for (const auto& [dim, ranks, rank] : {std::tuple{400, 2, 1}, {400, 2, 0}, {600, 8, 5}, {200, 2, 0}, {40, 4, 3}})
    for (const float scale : {1.0f, 1e-20f}) {  // by all ways of an update
      Case one(dim, scale, scale, 2, kRows, random);
      std::vector<std::vector<float>> parts;
      for (int e = 0; e < 2; ++e) {
        const std::vector<float>& squares = one.entries[e].squares;
        const auto count = static_cast<std::int64_t>(squares.size());
        std::vector<float>& of_ranks = parts.emplace_back(ranks * count);
        for (std::int64_t i = 0; i < count; ++i) of_ranks[rank * count + i] = static_cast<float>(ranks) * squares[i];
        one.gradients.entry[e].squares = of_ranks.data();
        one.gradients.entry[e].square_parts = ranks;
        one.gradients.entry[e].next_part = count;
      }
      const TableUpdate update = one.update();
      cuda::update({&update, 1}, 0.1f, {});
      one.expect_bits_of_the_host();
    }
}

}  // namespace
}  // namespace frugal::emulated_update
