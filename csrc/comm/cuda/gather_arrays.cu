#include "comm/cuda/gather_arrays.h"

#include <algorithm>
#include <string>

#include "base/device/cuda_check.h"

namespace frugal::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int kAhead = 8;  // floats that a thread asks for before it stores them
constexpr std::int64_t kBlocks = 96;  // of a copy, at most: enough under way to fill a link

struct Copies {
  static constexpr int kMost = 32;
  struct Copy {
    const float* from;
    float* to;
    std::int64_t floats;
  };
  int count = 0;
  Copy copy[kMost];
};

// Blocks take the copies in turn.
__global__ void __launch_bounds__(kThreads) copy_kernel(const __grid_constant__ Copies copies) {
  const Copies::Copy& mine = copies.copy[blockIdx.x % copies.count];
  const std::int64_t step = gridDim.x / copies.count * static_cast<std::int64_t>(kThreads);
  const std::int64_t first = blockIdx.x / copies.count * static_cast<std::int64_t>(kThreads) + threadIdx.x;
  for (std::int64_t i = first; i < mine.floats; i += kAhead * step) {
    float x[kAhead];
#pragma unroll
    for (int k = 0; k < kAhead; ++k)
      if (i + k * step < mine.floats) x[k] = mine.from[i + k * step];
#pragma unroll
    for (int k = 0; k < kAhead; ++k)
      if (i + k * step < mine.floats) mine.to[i + k * step] = x[k];
  }
}

// Launches copies as they become too many for one launch, and the rest in the end.
class Copying {
 public:
  explicit Copying(std::uintptr_t stream) : stream_(reinterpret_cast<cudaStream_t>(stream)) {}

  void add(const float* from, float* to, std::int64_t floats) {
    if (floats == 0) return;
    copies_.copy[copies_.count++] = {from, to, floats};
    longest_ = std::max(longest_, floats);
    if (copies_.count == Copies::kMost) launch();
  }

  void launch() {
    if (copies_.count == 0) return;
    const std::int64_t wanted = (longest_ + kThreads * kAhead - 1) / (kThreads * kAhead);
    const auto blocks = static_cast<unsigned>(copies_.count * std::min(wanted, kBlocks));
    const Copies copies = copies_;
    const cudaStream_t stream = stream_;
    copy_kernel<<<blocks, kThreads, 0, stream>>>(copies);
    cuda_check(cudaGetLastError(), "launching " + std::to_string(copies.count) + " copies between ranks");
    copies_.count = 0;
    longest_ = 0;
  }

 private:
  const cudaStream_t stream_;
  Copies copies_;
  std::int64_t longest_ = 0;
};

}  // namespace

void put_arrays(const DeviceExchange& exchange, std::span<const GatheredArray> arrays, std::uintptr_t stream) {
  Copying copying(stream);
  const Mirrors& mirrors = exchange.scores.own;
  for (int m = 0; m < mirrors.count; ++m) {
    float* to = mirrors.at[m];
    for (const GatheredArray& array : arrays) {
      copying.add(array.row(exchange.rank), to, array.floats);
      to += array.room();
    }
  }
  copying.launch();
}

void take_arrays(const DeviceExchange& exchange, std::span<const GatheredArray> arrays, std::uintptr_t stream) {
  Copying copying(stream);
  for (int further = 1; further < exchange.ranks; ++further) {  // each begins with its neighbour
    const int other = (exchange.rank + further) % exchange.ranks;
    const float* from = exchange.scores.of[other];
    for (const GatheredArray& array : arrays) {
      copying.add(from, array.row(other), array.floats);
      from += array.room();
    }
  }
  copying.launch();
}

}  // namespace frugal::cuda
