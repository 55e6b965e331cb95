// A block's tile of a product whose operands are brought four depths at a time, as whoever makes or gathers them likes.
//
// On tensor cores in three passes (tf32.cuh): they add up eight depths from zero, since they cut off what does not fit,
// and these sums are rounded to the nearest as they are added to a result. Before compute capability 8.0 the same
// threads make the same results by multiply-adds.
#pragma once

#include <cstdint>

#include "base/device/tensor_cores.cuh"
#include "base/device/tf32.cuh"

namespace frugal::cuda {

// Columns are 112, so that a hundred, a usual length of projected rows, wastes little.
struct ProductTile {
  static constexpr int kTall = 2, kWide = 7;     // of 16 rows and 8 columns each: a warp's results
  static constexpr int kDown = 2, kAcross = 2;   // a block's warps
  static constexpr int kThreads = 32 * kDown * kAcross;
  static constexpr int kRows = 16 * kTall * kDown, kColumns = 8 * kWide * kAcross;
  static constexpr int kGroup = 8, kGroups = 2, kDepth = kGroup * kGroups;  // of a slab
  static constexpr int kQuads = kDepth / 4;
  static constexpr int kMicroRows = 2 * kTall, kMicroColumns = 2 * kWide;  // a thread's results
  static constexpr int kThreadColumns = 4 * kAcross;  // threads that share a row of results

  // Floats of a group's indices: so many that a word of the next group lies in other banks than that of this one.
  template <int kIndices>
  static constexpr int kGroupFloats = kGroup * kIndices + 16;

  struct Slab {
    float left[kGroups * kGroupFloats<kRows>], right[kGroups * kGroupFloats<kColumns>];
  };

  struct Sums {
    float octet[kTall][kWide][4] = {};

    __device__ float at(int i, int j) const { return octet[i / 2][j / 2][i % 2 * 2 + j % 2]; }
  };

  // Which row of the tile is a thread's i-th, and which column; columns 2 k and 2 k + 1 are neighbours.
  static __device__ int row(int i) { return first_row() + 8 * i + lane() / 4; }
  static __device__ int column(int j) { return first_column() + j / 2 * 8 + lane() % 4 * 2 + j % 2; }
  static __device__ int thread_column() { return warp() % kAcross * 4 + lane() % 4; }

  // A thread's part of an operand's slab: kCount times four depths of an index. kByDepth: neighbours bring
  // neighbouring depths, else those of neighbouring indices; then a thread has one index alone, and depths that follow
  // each other.
  template <int kIndices, bool kByDepth>
  struct Share {
    static constexpr int kOwners = 2 * kIndices <= kThreads ? kThreads / 2 : kThreads;  // side by side, an index each
    static constexpr int kCount =
        kByDepth ? (kIndices * kQuads + kThreads - 1) / kThreads : kQuads * kOwners / kThreads;
    static_assert(kByDepth || kIndices <= kOwners);

    static __device__ int index(int k) { return kByDepth ? (k * kThreads + thread()) / kQuads : thread() % kOwners; }
    static __device__ int quad(int k) { return kByDepth ? thread() % kQuads : thread() / kOwners * kCount + k; }
    // Whether there is such an index; without it nothing is asked of a thread.
    static __device__ bool has(int k) { return index(k) < kIndices; }

   private:
    static __device__ int thread() { return static_cast<int>(threadIdx.x); }
  };

  // Adds sum over depth of left * right, slab after slab. operands.load(slab) begins to bring a slab's; then
  // operands.depths() says how many it has, and left(k) and right(k) are, as Left and Right say, float4 of four depths,
  // 0 beyond the ends. slabs: two, in shared memory, free for others behind the block's next barrier.
  template <typename Left, typename Right, typename Operands>
  static __device__ void fold(Slab* slabs, int count, Operands& operands, Sums& sum) {
    const auto put = [&](Slab& to) {
#pragma unroll
      for (int k = 0; k < Left::kCount; ++k)
        if (Left::has(k)) *word<kRows>(to.left, Left::index(k), Left::quad(k)) = operands.left(k);
#pragma unroll
      for (int k = 0; k < Right::kCount; ++k)
        if (Right::has(k)) *word<kColumns>(to.right, Right::index(k), Right::quad(k)) = operands.right(k);
    };
    if (count == 0) return;
    operands.load(0);
    int next = operands.depths();
    __syncthreads();  // whoever had the slabs before is done with them
    put(slabs[0]);
    __syncthreads();
    for (int slab = 0; slab < count; ++slab) {
      const int depths = next;
      const bool more = slab + 1 < count;
      if (more) operands.load(slab + 1), next = operands.depths();
      multiply<kTensorCores>(slabs[slab % 2], depths, sum);
      if (more) put(slabs[(slab + 1) % 2]);
      __syncthreads();
    }
  }

  template <bool kOnTensorCores>
  static __device__ void multiply(const Slab& slab, int depths, Sums& sum) {
#pragma unroll
    for (int group = 0; group < kGroups; ++group) {
      if (group * kGroup >= depths) return;
      const float* const left = slab.left + group * kGroupFloats<kRows>;
      const float* const right = slab.right + group * kGroupFloats<kColumns>;
      if constexpr (kOnTensorCores)
        multiply_octets(left, right, sum);
      else
        multiply_in_float32(left, right, sum);
    }
  }

 private:
  static __device__ int lane() { return static_cast<int>(threadIdx.x % 32); }
  static __device__ int warp() { return static_cast<int>(threadIdx.x / 32); }
  static __device__ int first_row() { return warp() / kAcross * 16 * kTall; }
  static __device__ int first_column() { return warp() % kAcross * 8 * kWide; }

  // Where the four depths of a half of a group lie, for an index: halves change places every four indices, so that
  // neither writes nor reads have bank conflicts.
  static __device__ int place(int index, int half) { return index * kGroup + (half ^ index / 4 % 2) * 4; }

  template <int kIndices>
  static __device__ float4* word(float* slab, int index, int quad) {
    return reinterpret_cast<float4*>(slab + quad / 2 * kGroupFloats<kIndices> + place(index, quad % 2));
  }

  // A lane has depths 2 t and 2 t + 1, t = lane % 4, of the indices g, g + 8, ..., g = lane / 4.
  static __device__ float2 own_depths(const float* group, int index) {
    const int t = lane() % 4;
    return *reinterpret_cast<const float2*>(group + place(index, t / 2) + t % 2 * 2);
  }

  static __device__ void multiply_octets(const float* left, const float* right, Sums& sum) {
    const int g = lane() / 4;
    std::uint32_t high_b[kWide][2], low_b[kWide][2];
#pragma unroll
    for (int j = 0; j < kWide; ++j) {
      const float2 b = own_depths(right, first_column() + 8 * j + g);
      high_b[j][0] = high_of(b.x), low_b[j][0] = low_of(b.x, high_b[j][0]);
      high_b[j][1] = high_of(b.y), low_b[j][1] = low_of(b.y, high_b[j][1]);
    }
#pragma unroll
    for (int i = 0; i < kTall; ++i) {
      const float2 upper = own_depths(left, first_row() + 16 * i + g);
      const float2 lower = own_depths(left, first_row() + 16 * i + 8 + g);
      const float a[4] = {upper.x, lower.x, upper.y, lower.y};
      std::uint32_t high_a[4], low_a[4];
#pragma unroll
      for (int k = 0; k < 4; ++k) high_a[k] = high_of(a[k]), low_a[k] = low_of(a[k], high_a[k]);
      float part[kWide][4];
#pragma unroll
      for (int j = 0; j < kWide; ++j) frugal::cuda::multiply(part[j], low_a, high_b[j]);
#pragma unroll
      for (int j = 0; j < kWide; ++j) multiply_add(part[j], high_a, low_b[j]);
#pragma unroll
      for (int j = 0; j < kWide; ++j) multiply_add(part[j], high_a, high_b[j]);
#pragma unroll
      for (int j = 0; j < kWide; ++j)
#pragma unroll
        for (int k = 0; k < 4; ++k) sum.octet[i][j][k] += part[j][k];
    }
  }

  static __device__ void multiply_in_float32(const float* left, const float* right, Sums& sum) {
#pragma unroll
    for (int half = 0; half < kGroup / 4; ++half) {
      float4 a[kMicroRows];
#pragma unroll
      for (int i = 0; i < kMicroRows; ++i) a[i] = *reinterpret_cast<const float4*>(left + place(row(i), half));
#pragma unroll
      for (int j = 0; j < kMicroColumns; ++j) {
        const float4 b = *reinterpret_cast<const float4*>(right + place(column(j), half));
#pragma unroll
        for (int i = 0; i < kMicroRows; ++i) {
          float& s = sum.octet[i / 2][j / 2][i % 2 * 2 + j % 2];
          s = __fmaf_rn(a[i].x, b.x, s), s = __fmaf_rn(a[i].y, b.y, s);
          s = __fmaf_rn(a[i].z, b.z, s), s = __fmaf_rn(a[i].w, b.w, s);
        }
      }
    }
  }
};

// Four neighbours, of which `there` are; the others are 0.
template <bool kFours>
__device__ inline float4 four_depths(const float* from, int there) {
  if (kFours) return there > 0 ? *reinterpret_cast<const float4*>(from) : float4{};
  return {there > 0 ? from[0] : 0.0f, there > 1 ? from[1] : 0.0f, there > 2 ? from[2] : 0.0f,
          there > 3 ? from[3] : 0.0f};
}

// A thread's share of an operand whose depths lie side by side, rows `stride` floats apart. kFours: whether four of
// them are 16 bytes to be loaded at once. Loads beyond the last row repeat it, and are not used.
template <int kIndices, bool kFours>
struct DepthsOfRows {
  using Share = ProductTile::Share<kIndices, true>;
  int offset[Share::kCount];
  float4 x[Share::kCount];

  __device__ DepthsOfRows(int rows, int stride) {
#pragma unroll
    for (int k = 0; k < Share::kCount; ++k) {
      const int row = Share::index(k);
      offset[k] = (row < rows ? row : rows - 1) * stride + 4 * Share::quad(k);
    }
  }
  // from: the first row at the first depth of the slab, which has `there`.
  __device__ void load(const float* from, int there) {
#pragma unroll
    for (int k = 0; k < Share::kCount; ++k) x[k] = four_depths<kFours>(from + offset[k], there - 4 * Share::quad(k));
  }
};

// A thread's share of an operand whose indices lie side by side, depths `stride` floats apart.
template <int kIndices>
struct DepthsOfColumns {
  using Share = ProductTile::Share<kIndices, false>;
  static constexpr int kOwn = 4 * Share::kCount;
  const float* at;  // of the slab that is loaded next
  int stride;
  float x[kOwn];

  // from: the thread's index at the first depth of all.
  __device__ DepthsOfColumns(const float* from, int apart)
      : at(from + std::int64_t{4 * Share::quad(0)} * apart), stride(apart) {}
  __device__ void load(int there) {
    const int own = there - 4 * Share::quad(0);
    const float* from = at;
    if (there >= ProductTile::kDepth) {
#pragma unroll
      for (int d = 0; d < kOwn; ++d, from += stride) x[d] = *from;
    } else {
#pragma unroll
      for (int d = 0; d < kOwn; ++d, from += stride) x[d] = d < own ? *from : 0.0f;
    }
    at += ProductTile::kDepth * stride;
  }
  __device__ float4 four(int k) const { return {x[4 * k], x[4 * k + 1], x[4 * k + 2], x[4 * k + 3]}; }
};

}  // namespace frugal::cuda
