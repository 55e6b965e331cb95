// The kernels by which ranks gather arrays, run on a CPU, one rank's after the other's.
#include <gtest/gtest.h>

#include <tuple>
#include <vector>

#include "comm/cuda/gather_arrays.h"

namespace frugal::emulated_gathers {
namespace {

class EmulatedGathers : public ::testing::TestWithParam<std::tuple<int, bool>> {};
INSTANTIATE_TEST_SUITE_P(Ranks, EmulatedGathers, ::testing::Combine(::testing::Values(1, 2, 8), ::testing::Bool()));

TEST_P(EmulatedGathers, BringAllRowsToAllRanks) {
  const auto [ranks, near] = GetParam();
  const std::vector<std::int64_t> sizes = {70'001, 1, 6, 32, 5, 3};  // the first is more than all blocks ask for at
                                                                     // once
  std::int64_t room = 0;
  for (const std::int64_t size : sizes) room += GatheredArray{nullptr, size}.room();
  // Of each rank, what the others put into its memory; and what it puts into host memory.
  std::vector<std::vector<std::vector<float>>> parts(ranks,
                                                     {static_cast<std::size_t>(ranks), std::vector<float>(room, -1)});
  std::vector<std::vector<float>> far(ranks, std::vector<float>(room, -1));
  std::vector<std::vector<std::vector<float>>> memory(ranks);
  std::vector<std::vector<GatheredArray>> arrays(ranks);
  std::vector<cuda::DeviceExchange> exchanges(ranks);
  const auto value = [](int rank, std::size_t array, std::int64_t i) {
    return static_cast<float>(1000 * rank + 100 * static_cast<int>(array) + static_cast<int>(i % 97));
  };
  for (int rank = 0; rank < ranks; ++rank) {
    cuda::DeviceExchange& x = exchanges[rank];
    x.rank = rank, x.ranks = ranks, x.near = near;
    x.scores.own.own = parts[rank][rank].data();
    if (!near && ranks > 1) x.scores.own.at[x.scores.own.count++] = far[rank].data();
    for (int other = 0; other < ranks; ++other) {
      x.scores.of[other] = near || other == rank ? parts[rank][other].data() : far[other].data();
      if (near && other != rank) x.scores.own.at[x.scores.own.count++] = parts[other][rank].data();
    }
    for (std::size_t a = 0; a < sizes.size(); ++a) {
      memory[rank].emplace_back(ranks * sizes[a], -1.0f);
      arrays[rank].push_back({memory[rank].back().data(), sizes[a]});
      for (std::int64_t i = 0; i < sizes[a]; ++i) arrays[rank][a].row(rank)[i] = value(rank, a, i);
    }
  }
  for (int rank = ranks - 1; rank >= 0; --rank) cuda::put_arrays(exchanges[rank], arrays[rank], 0);
  for (int rank = 0; rank < ranks; ++rank) {
    cuda::take_arrays(exchanges[rank], arrays[rank], 0);
    for (std::size_t a = 0; a < sizes.size(); ++a)
      for (int other = 0; other < ranks; ++other)
        for (std::int64_t i = 0; i < sizes[a]; ++i)
          ASSERT_EQ(arrays[rank][a].row(other)[i], value(other, a, i)) << rank << " " << a << " " << other << " " << i;
  }
}

}  // namespace
}  // namespace frugal::emulated_gathers
