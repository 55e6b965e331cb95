#include "comm/cuda/peer_memory.h"

#include <stdexcept>

#include "base/device/cuda_check.h"

namespace frugal::cuda {
namespace {

// Words of the others, then the counters of this rank, then the regions: weights, scores and squares of all ranks.
constexpr std::size_t kCounters = kMostRanks * kExchangeLine, kRegions = kCounters + kExchangeLine;

std::uint64_t* word_of(char* memory, int rank) {
  return reinterpret_cast<std::uint64_t*>(memory + static_cast<std::size_t>(rank) * kExchangeLine);
}

void add(Mirrors& mirrors, float* at) { mirrors.at[mirrors.count++] = at; }

}  // namespace

bool reach_each_other(int device, int other) {
  if (device == other) return true;
  int there = 0, back = 0;
  return cudaDeviceCanAccessPeer(&there, device, other) == cudaSuccess &&
         cudaDeviceCanAccessPeer(&back, other, device) == cudaSuccess && there && back;
}

PeerMemory::PeerMemory(HostExchange& exchange) : host_(exchange), memory_(bytes(), "the exchange between ranks") {}

std::size_t PeerMemory::bytes() const {
  const ExchangeFloats& floats = host_.floats();
  return kRegions +
         static_cast<std::size_t>(floats.weights + host_.ranks() * (floats.scores + floats.squares)) * sizeof(float);
}

float* PeerMemory::part_in(char* memory, ExchangeRegion region, int rank) const {
  const ExchangeFloats& floats = host_.floats();
  float* const weights = reinterpret_cast<float*>(memory + kRegions);
  if (region == ExchangeRegion::kWeights) return weights;
  float* const scores = weights + floats.weights;
  if (region == ExchangeRegion::kScores) return scores + rank * floats.scores;
  return scores + host_.ranks() * floats.scores + rank * floats.squares;
}

void PeerMemory::connect(const std::vector<std::string>& handles) {
  const int rank = host_.rank(), ranks = host_.ranks();
  char* const here = memory_.data();
  if (ranks > kMostRanks)
    throw std::invalid_argument("devices of at most " + std::to_string(kMostRanks) + " ranks exchange data");
  if (!handles.empty() && static_cast<int>(handles.size()) != ranks)
    throw std::invalid_argument("one handle for each rank");
  DeviceExchange x{};
  x.rank = rank;
  x.ranks = ranks;
  x.failed = &host_.words().failed;
  x.posted = reinterpret_cast<std::uint64_t*>(here + kCounters);
  x.blocks_done = reinterpret_cast<unsigned*>(x.posted + 1);
  x.blocks_sent = x.blocks_done + 1;
  x.entered = x.posted + 2;
  x.near = !handles.empty();
  using enum ExchangeRegion;
  for (int each = 0; each < ranks; ++each) {
    x.part[each] = part_in(here, kScores, each);
    x.scores.of[each] = x.scores.here[each] = x.part[each];
    x.squares.of[each] = x.squares.here[each] = part_in(here, kSquares, each);
  }
  x.to[rank] = x.part[rank];
  x.weights.own = part_in(here, kWeights, rank);
  x.scores.own.own = x.part[rank];
  x.squares.own.own = part_in(here, kSquares, rank);
  if (!x.near && ranks > 1) {
    add(x.weights, host_.part(kWeights, rank));
    add(x.scores.own, host_.part(kScores, rank));
    add(x.squares.own, host_.part(kSquares, rank));
  }
  for (int further = 1; further < ranks; ++further) {  // each begins with its neighbour: not all write to the same one
    const int other = (rank + further) % ranks;
    if (!x.near) {
      x.to[other] = host_.part(kScores, rank);
      x.far_part[other] = host_.part(kScores, other);
      x.scores.of[other] = x.far_part[other];
      x.squares.of[other] = host_.part(kSquares, other);
      x.tell[other] = &host_.words().word[rank].posted;
      x.hear[other] = &host_.words().word[other].posted;
      continue;
    }
    char* const there = memory_.open(handles[other]);
    x.to[other] = part_in(there, kScores, rank);
    add(x.weights, part_in(there, kWeights, other));
    add(x.scores.own, x.to[other]);
    add(x.squares.own, part_in(there, kSquares, rank));
    x.tell[other] = word_of(there, rank);
    x.hear[other] = word_of(here, other);
  }
  device_ = x;
}

}  // namespace frugal::cuda
