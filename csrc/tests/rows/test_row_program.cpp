// The warp's program against the plain loops of table/, and the kernels on the CPU against doing everything by hand.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <random>
#include <vector>

#include "rows/cpu/host_warp.h"
#include "rows/cpu/plan_kernels.h"
#include "table/row_adagrad.h"
#include "table/row_layout.h"

namespace frugal {
namespace {

std::vector<float> normal_floats(std::size_t count, int seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  std::vector<float> values(count);
  for (auto& value : values) value = normal(random) * (1 + random() % 1000);
  return values;
}

// 512 elements fill the first level of the cascade, 8192 the second, 131072 the third.
TEST(WarpMeanSquare, HasTheBitsOfThePlainLoop) {
  std::vector<std::int64_t> dims = {4095,   8191, 8192, 8193, 8704, 16384 + 33, 131072, 131072 + 8192 + 512 + 37,
                                    1 << 20};
  for (std::int64_t dim = 1; dim < 1200; ++dim) dims.push_back(dim);
  const auto gradient = normal_floats(1 << 20, 1);
  for (const auto dim : dims) {
    const float expected = mean_square(gradient.data(), dim);
    const float* const both[2] = {gradient.data(), gradient.data()};
    float actual[2];
    warp_mean_squares<HostWarp, 2>(both, dim, sum_level_power(dim / kSumPartials), actual);
    for (const float each : actual) ASSERT_EQ(std::memcmp(&expected, &each, sizeof expected), 0) << "dim " << dim;
  }
}

class PlanKernelsTest : public testing::TestWithParam<std::int64_t> {};

// Rows of every source and of every way to leave; occurrences 0 to 3 per entry, in shuffled order.
TEST_P(PlanKernelsTest, DoesWhatThePlanSays) {
  const std::int64_t dim = GetParam();
  const RowLayout layout = RowLayout::for_dim(dim);
  constexpr std::int64_t kRows = 500, kSlots = 300, kUsed = 400;
  auto host = normal_floats(kRows * layout.stride, 2), cache = normal_floats(kSlots * layout.stride, 3);
  for (std::int64_t r = 0; r < kRows; ++r) host[r * layout.stride + dim] = static_cast<float>(r % 7);  // states >= 0
  for (std::int64_t s = 0; s < kSlots; ++s) cache[s * layout.stride + dim] = static_cast<float>(s % 5);
  std::mt19937 random(static_cast<int>(dim));

  std::vector<std::int64_t> rows(kUsed), target(kUsed);
  std::vector<std::int32_t> source(kUsed);
  std::vector<RowDestination> leave(kUsed);
  std::vector<std::vector<std::int32_t>> occurrences[2] = {std::vector<std::vector<std::int32_t>>(kUsed),
                                                           std::vector<std::vector<std::int32_t>>(kUsed)};
  std::vector<std::int32_t> offset[2] = {{0}, {0}}, order;
  std::int64_t staged = 0;
  for (std::int64_t u = 0; u < kUsed; ++u) {
    rows[u] = u + random() % 2;
    source[u] = u % 3 == 0 ? static_cast<std::int32_t>(u * 3 / 4 % kSlots) : kFromHost;
    leave[u] = static_cast<RowDestination>(u % 4);
    int gradients = 0;
    for (int e = 0; e < 2; ++e) {
      const int count = random() % 4;
      gradients += count;
      offset[e].push_back(offset[e].back() + count);
    }
    target[u] = leave[u] == RowDestination::kCache ? u / 4 : leave[u] == RowDestination::kHostRow ? u : staged;
    if (leave[u] == RowDestination::kValue) staged += layout.stride;
    if (leave[u] == RowDestination::kGradient) staged += gradients * layout.stride;
  }
  for (std::int32_t i = 0; i < offset[1].back(); ++i) order.push_back(i);
  std::shuffle(order.begin(), order.end(), random);
  const std::int64_t pitch = dim + 3;  // gradients need no alignment
  const auto first = normal_floats(offset[0].back() * pitch, 4), second = normal_floats(offset[1].back() * pitch, 5);
  const StepGradients gradients{
      {{first.data(), pitch, offset[0].data(), nullptr}, {second.data(), pitch, offset[1].data(), order.data()}}, 2};

  std::vector<float> staging(staged, -1.0f), records(kUsed * layout.stride);
  auto host_expected = host, cache_expected = cache, staging_expected = staging;
  const RowAdagrad optimizer{0.1f};
  for (std::int64_t u = 0; u < kUsed; ++u) {
    const float* from = source[u] == kFromHost ? &host[rows[u] * layout.stride] : &cache[source[u] * layout.stride];
    std::vector<float> record(from, from + dim + 1);
    const auto occurrence = [&](int e, std::int64_t i) {
      return e == 0 ? &first[i * pitch] : &second[order[i] * pitch];
    };
    if (leave[u] == RowDestination::kGradient) {
      float* to = &staging_expected[target[u]];
      for (int e = 0; e < 2; ++e)
        for (auto i = offset[e][u]; i < offset[e][u + 1]; ++i, to += layout.stride)
          std::copy_n(occurrence(e, i), dim, to);
      continue;
    }
    for (int e = 0; e < 2; ++e) {
      for (auto i = offset[e][u]; i < offset[e][u + 1]; ++i) optimizer.accumulate(record[dim], occurrence(e, i), dim);
      for (auto i = offset[e][u]; i < offset[e][u + 1]; ++i)
        optimizer.apply(record.data(), record[dim], occurrence(e, i), dim);
    }
    float* const to = leave[u] == RowDestination::kCache     ? &cache_expected[target[u] * layout.stride]
                      : leave[u] == RowDestination::kHostRow ? &host_expected[target[u] * layout.stride]
                                                             : &staging_expected[target[u]];
    std::copy_n(record.data(), dim + 1, to);
  }

  const RowMemory memory{dim, layout.stride, host.data(), cache.data(), staging.data()};
  cpu::gather(memory, {rows.data(), source.data(), kUsed}, records.data());

  cpu::update(memory, {leave.data(), target.data(), kUsed}, records.data(), gradients, optimizer.learning_rate);
  EXPECT_EQ(host, host_expected);
  EXPECT_EQ(cache, cache_expected);
  EXPECT_EQ(staging, staging_expected);

  const WriteBack write_backs[] = {{7, 0, 0, 0, 3, RowDestination::kValue}, {9, 0, 9, 0, 5, RowDestination::kHostRow}};
  cpu::write_back_evicted(memory, write_backs, 2);
  EXPECT_EQ(std::memcmp(&staging[0], &cache[3 * layout.stride], (dim + 1) * sizeof(float)), 0);
  EXPECT_EQ(std::memcmp(&host[9 * layout.stride], &cache[5 * layout.stride], (dim + 1) * sizeof(float)), 0);
}

INSTANTIATE_TEST_SUITE_P(Dims, PlanKernelsTest, testing::Values(1, 3, 7, 8, 50, 127, 400, 1000));

}  // namespace
}  // namespace frugal
