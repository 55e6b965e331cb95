// The kernels of replicas, run on a CPU, against plain loops. One rank's run after the other's: all post, then all
// apply.
#include <gtest/gtest.h>

#include <tuple>
#include <vector>

#include "comm/cuda/replica_updates.h"
#include "tests/comm/replica_steps.h"

namespace frugal::emulated_replicas {
namespace {

using namespace replica_steps;

// A device's memory: the parts of all ranks in two regions, words, counters and a replica; and the rank's part in host
// memory.
struct Device {
  std::vector<std::vector<float>> parts;
  std::vector<float> far;
  std::vector<std::uint64_t> heard;
  std::uint64_t posted = 0, entered = 0;
  unsigned blocks_sent = 0, blocks_done = 0;
  std::vector<float> table;

  Device(int ranks, const ReplicaPart& part)
      : parts(ranks, std::vector<float>(2 * part.floats(), 7.0f)),
        far(parts[0]),
        heard(ranks),
        table(first_table(part)) {}
};

struct Devices {
  std::uint32_t failed = 0;
  ReplicaPart part;
  bool near;  // whether devices reach each other
  std::vector<Device> of_rank;

  Devices(int ranks, const ReplicaPart& part, bool near)
      : part(part), near(near), of_rank(ranks, Device(ranks, part)) {}

  cuda::DeviceExchange exchange(int rank) {
    const auto ranks = static_cast<int>(of_rank.size());
    Device& own = of_rank[rank];
    cuda::DeviceExchange x{};
    x.rank = rank, x.ranks = ranks, x.near = near;
    const auto mirror = [&](std::vector<float>& to) {
      x.scores.own.at[x.scores.own.count++] = to.data();
      x.squares.own.at[x.squares.own.count++] = to.data() + part.floats();
    };
    if (!near && ranks > 1) mirror(own.far);
    for (int other = 0; other < ranks; ++other) {
      x.scores.here[other] = own.parts[other].data();
      x.squares.here[other] = own.parts[other].data() + part.floats();
      const float* const read = near || other == rank ? own.parts[other].data() : of_rank[other].far.data();
      x.scores.of[other] = read;
      x.squares.of[other] = read + part.floats();
      if (other == rank) continue;
      if (near) mirror(of_rank[other].parts[rank]);
      x.tell[other] = &of_rank[other].heard[rank];
      x.hear[other] = &own.heard[other];
    }
    x.scores.own.own = own.parts[rank].data();
    x.squares.own.own = own.parts[rank].data() + part.floats();
    x.failed = &failed, x.posted = &own.posted, x.entered = &own.entered;
    x.blocks_sent = &own.blocks_sent, x.blocks_done = &own.blocks_done;
    return x;
  }

  void send(int rank, int step) {
    const RankStep own(part, rank, step);
    std::vector<std::int64_t> ids = own.ids;
    const auto used = static_cast<std::int32_t>(ids.size());
    ids.resize(part.rows, kTableRows);  // as plans are padded
    cuda::send_sums(exchange(rank), part, {ids.data(), &used, {own.entries[0], own.entries[1]}}, 0);
  }
  void apply(int rank) {
    cuda::apply_sums(exchange(rank), part, of_rank[rank].table.data(), stride(part), kRate, 0);
  }
};

class EmulatedReplicas : public ::testing::TestWithParam<std::tuple<int, bool>> {};
INSTANTIATE_TEST_SUITE_P(Ranks, EmulatedReplicas, ::testing::Combine(::testing::Values(1, 2, 4), ::testing::Bool()));

TEST_P(EmulatedReplicas, AreThoseOfPlainLoops) {
  const auto [ranks, near] = GetParam();
  const int steps = 4;
  for (const int entries : {1, 2})
    for (const std::int64_t dim : {3, 32, 150}) {
      Devices devices(ranks, {11, dim, entries}, near);
      for (int step = 0; step < steps; ++step) {
        for (int rank = ranks - 1; rank >= 0; --rank) devices.send(rank, step);
        for (int rank = 0; rank < ranks; ++rank) devices.apply(rank);
      }
      const std::vector<float> expected = by_plain_loops(ranks, devices.part, steps);
      for (const Device& each : devices.of_rank) {
        EXPECT_EQ(each.table, expected) << dim << " floats, " << entries << " entries";
        EXPECT_EQ(each.posted, static_cast<std::uint64_t>(steps));
        EXPECT_EQ(each.blocks_sent + each.blocks_done, 0u);
      }
    }
}

TEST(EmulatedReplicas, StayAsTheyAreOnceARankHasFailed) {
  Devices devices(2, {11, 20, 1}, false);
  devices.failed = 1;
  devices.send(0, 0);
  devices.apply(0);
  EXPECT_EQ(devices.of_rank[0].table, first_table(devices.part));
}

}  // namespace
}  // namespace frugal::emulated_replicas
