// The update kernel, run on a CPU, against the plain loops of optim/.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <numeric>
#include <random>
#include <vector>

#include "kernels/cuda/plan_kernels.h"
#include "kernels/mean_squares.h"
#include "memory/row_layout.h"
#include "optim/row_adagrad.h"

namespace frugal {
namespace {

constexpr std::int64_t kRows = 24;

struct Entry {
  std::vector<float> values;
  std::vector<std::int32_t> offset{0}, order;
};

// Rows with 0 to 3 occurrences, a few with more than one warp or one round of a block takes.
Entry random_entry(std::int64_t dim, float scale, int which, std::mt19937& random) {
  Entry entry;
  for (std::int64_t u = 0; u < kRows; ++u) {
    const auto most = dim > 300 ? 40 : 300;
    entry.offset.push_back(entry.offset.back() +
                           static_cast<std::int32_t>(u % 7 == which ? 5 + random() % most : random() % 4));
  }
  entry.order.resize(entry.offset.back());
  std::iota(entry.order.begin(), entry.order.end(), 0);
  std::shuffle(entry.order.begin(), entry.order.end(), random);
  std::normal_distribution<float> normal;
  entry.values.resize(entry.order.size() * dim);
  for (float& value : entry.values) value = scale * normal(random);
  return entry;
}

// The scales reach gradients of usual size, subnormal ones, and none at all. given: the mean squares have been computed
// before, as where other ranks have the other columns.
void expect_the_bits_of_the_host(bool given) {
  std::mt19937 random(1);
  for (const std::int64_t dim : {1, 7, 127, 400})
    for (const float scale : {1.0f, 1e-40f, 0.0f}) {
      RowMemory memory{};
      memory.dim = dim;
      memory.stride = RowLayout::for_dim(dim).stride;
      std::vector<float> records(kRows * memory.stride), cache(records.size());
      for (float& value : records) value = 0.1f * static_cast<float>(random() % 1000);
      for (std::int64_t u = 0; u < kRows; u += 5) records[u * memory.stride + dim] = 0.0f;  // a new row
      const Entry entries[2] = {random_entry(dim, scale, 0, random), random_entry(dim, scale, 1, random)};
      StepGradients gradients{};
      gradients.entries = 2;
      for (int e = 0; e < 2; ++e)
        gradients.entry[e] = {entries[e].values.data(), dim, entries[e].offset.data(),
                              e == 1 ? entries[e].order.data() : nullptr};

      std::vector<float> means[2];
      for (int e = 0; e < 2 && given; ++e) {
        const auto rows = static_cast<std::int64_t>(entries[e].values.size()) / dim;
        means[e].resize(rows);
        GradientBlocks blocks{};
        blocks.blocks = 2;  // in two pieces
        blocks.block[0] = {entries[e].values.data(), rows / 3, dim, dim};
        blocks.block[1] = {entries[e].values.data() + rows / 3 * dim, rows - rows / 3, dim, dim};
        cuda::mean_squares(blocks, means[e].data(), 0);
        gradients.entry[e].mean_square = means[e].data();
      }

      const auto occurrences = [&](std::int64_t u, int e) { return entries[e].offset[u + 1] - entries[e].offset[u]; };
      std::vector<Leave> leave;
      std::vector<std::int64_t> target;
      std::int64_t staged = 0;
      for (std::int64_t u = 0; u < kRows; ++u) {
        leave.push_back(u % 3 == 0 ? Leave::kCache : u % 3 == 1 ? Leave::kValue : Leave::kGradient);
        target.push_back(leave[u] == Leave::kCache ? u : staged);
        if (leave[u] == Leave::kValue) staged += memory.stride;
        if (leave[u] == Leave::kGradient) staged += memory.stride * (occurrences(u, 0) + occurrences(u, 1));
      }
      std::vector<float> staging(staged);
      memory.cache = cache.data();
      memory.staging = staging.data();
      cuda::update(memory, {leave.data(), target.data(), kRows}, records.data(), gradients, 0.1f, {});

      const RowAdagrad adagrad{0.1f};
      for (std::int64_t u = 0; u < kRows; ++u) {
        const float* record = records.data() + u * memory.stride;
        std::vector<float> row(record, record + dim + 1);
        const float* left = leave[u] == Leave::kCache ? &cache[u * memory.stride] : staging.data() + target[u];
        for (int e = 0; e < 2; ++e) {
          const EntryGradients& entry = gradients.entry[e];
          const std::int32_t begin = entry.offset[u], end = entry.offset[u + 1];
          for (std::int32_t i = begin; i < end && leave[u] == Leave::kGradient; ++i, left += memory.stride)
            ASSERT_EQ(std::memcmp(left, entry.occurrence(i), dim * sizeof(float)), 0) << dim << ", row " << u;
          for (std::int32_t i = begin; i < end; ++i) adagrad.accumulate(row[dim], entry.occurrence(i), dim);
          for (std::int32_t i = begin; i < end; ++i) adagrad.apply(row.data(), row[dim], entry.occurrence(i), dim);
        }
        if (leave[u] == Leave::kGradient) continue;
        ASSERT_EQ(std::memcmp(left, row.data(), row.size() * sizeof(float)), 0)
            << dim << ", " << scale << ", row " << u;
      }
    }
}

TEST(EmulatedUpdate, GivesTheBitsOfTheHost) { expect_the_bits_of_the_host(false); }
TEST(EmulatedUpdate, TakesMeanSquaresThatAreGiven) { expect_the_bits_of_the_host(true); }

}  // namespace
}  // namespace frugal
