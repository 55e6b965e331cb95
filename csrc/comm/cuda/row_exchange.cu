#include "comm/cuda/row_exchange.h"

#include <algorithm>

#include "base/device/cuda_check.h"
#include "base/device/last_block.cuh"
#include "comm/cuda/barrier.cuh"

namespace frugal::cuda {
namespace {

constexpr int kThreads = 512, kAhead = 4;  // words of a thread that are under way together
constexpr std::int64_t kBlocks = 64;       // which all wait at once, and look at the words of others

// move(rank, place, i) for word i of the owner's rows, which are `width` words each: its place in the rank's box.
template <typename Move>
__device__ void for_words(const OwnedRows& owned, int ranks, std::int64_t width, Move move) {
  const std::int64_t words = owned.begin[ranks] * width;
  const std::int64_t threads = static_cast<std::int64_t>(gridDim.x) * blockDim.x;
  const std::int64_t own = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  for (std::int64_t first = own; first < words; first += kAhead * threads) {
#pragma unroll
    for (int k = 0; k < kAhead; ++k) {
      const std::int64_t i = first + k * threads;
      if (i >= words) continue;
      int rank = 0;
      while (i >= owned.begin[rank + 1] * width) ++rank;
      move(rank, i + (owned.place[rank] - owned.begin[rank]) * width, i);
    }
  }
}

template <typename Word>
__global__ void __launch_bounds__(kThreads)
    send_kernel(const __grid_constant__ RowExchange x, const __grid_constant__ OwnedRows owned, const float* values,
                std::int64_t width, std::uint64_t number, unsigned* turn) {
  for_words(owned, x.words.ranks, width, [&](int rank, std::int64_t place, std::int64_t i) {
    reinterpret_cast<Word*>(x.inbox[rank])[place] = reinterpret_cast<const Word*>(values)[i];
  });
  if (!is_last_block(turn)) return;
  tell(x.words, number);
  hear(x.words, number);  // if somebody has failed, nobody uses what follows
}

template <typename Word>
__global__ void __launch_bounds__(kThreads)
    fetch_kernel(const __grid_constant__ RowExchange x, const __grid_constant__ OwnedRows owned, float* sums,
                std::int64_t width, std::uint64_t number) {
  if (blockIdx.x == 0) tell(x.words, number);  // an earlier kernel has filled the outbox
  if (hear(x.words, number)) return;
  for_words(owned, x.words.ranks, width, [&](int rank, std::int64_t place, std::int64_t i) {
    reinterpret_cast<Word*>(sums)[i] = reinterpret_cast<const Word*>(x.outbox[rank])[place];
  });
}

// Rows in words of four floats, or of one where their number is no multiple of that.
struct Words {
  bool whole;
  std::int64_t width;  // of a row
  unsigned blocks;
};

Words words_of(const RowExchange& exchange, const OwnedRows& owned) {
  const bool whole = exchange.dim % 4 == 0;
  const std::int64_t width = whole ? exchange.dim / 4 : exchange.dim;
  const std::int64_t words = owned.begin[exchange.words.ranks] * width;
  return {whole, width, static_cast<unsigned>(std::clamp<std::int64_t>(words / (kThreads * kAhead), 1, kBlocks))};
}

cudaStream_t of(std::uintptr_t stream) { return reinterpret_cast<cudaStream_t>(stream); }

}  // namespace

void send_values(const RowExchange& exchange, const OwnedRows& owned, const float* values, std::uint64_t number,
                 unsigned* turn, std::uintptr_t stream) {
  const Words words = words_of(exchange, owned);
  const auto kernel = words.whole ? send_kernel<float4> : send_kernel<float>;
  kernel<<<words.blocks, kThreads, 0, of(stream)>>>(exchange, owned, values, words.width, number, turn);
  cuda_check(cudaGetLastError(), "launching an exchange of rows");
}

void fetch_sums(const RowExchange& exchange, const OwnedRows& owned, float* sums, std::uint64_t number,
                std::uintptr_t stream) {
  const Words words = words_of(exchange, owned);
  const auto kernel = words.whole ? fetch_kernel<float4> : fetch_kernel<float>;
  kernel<<<words.blocks, kThreads, 0, of(stream)>>>(exchange, owned, sums, words.width, number);
  cuda_check(cudaGetLastError(), "launching an exchange of sums of gradients");
}

}  // namespace frugal::cuda
