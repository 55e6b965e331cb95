// Counter-based random numbers: Philox4x32-10 (Salmon, Moraes, Dror, Shaw: "Parallel random numbers: as easy as 1, 2,
// 3", SC 2011). A number is a function of (key, counter), so any part of a stream can be made alone, in any order, on
// any thread or device, and resuming needs no state.
#pragma once

#include <array>
#include <cmath>
#include <cstdint>

#include "device/everywhere.h"

namespace frugal {

using PhiloxBlock = std::array<std::uint32_t, 4>;

struct PhiloxWords {
  std::uint32_t at[4];
};

// One block of 128 random bits, also on a device.
FRUGAL_EVERYWHERE inline PhiloxWords philox_words(std::uint64_t key, std::uint64_t counter_low,
                                                  std::uint64_t counter_high) {
  constexpr std::uint32_t kMultiplier0 = 0xD2511F53u, kMultiplier1 = 0xCD9E8D57u;
  constexpr std::uint32_t kWeyl0 = 0x9E3779B9u, kWeyl1 = 0xBB67AE85u;
  std::uint32_t key0 = static_cast<std::uint32_t>(key), key1 = static_cast<std::uint32_t>(key >> 32);
  std::uint32_t c0 = static_cast<std::uint32_t>(counter_low), c1 = static_cast<std::uint32_t>(counter_low >> 32);
  std::uint32_t c2 = static_cast<std::uint32_t>(counter_high), c3 = static_cast<std::uint32_t>(counter_high >> 32);
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t product0 = std::uint64_t{kMultiplier0} * c0, product1 = std::uint64_t{kMultiplier1} * c2;
    c0 = static_cast<std::uint32_t>(product1 >> 32) ^ c1 ^ key0;
    c2 = static_cast<std::uint32_t>(product0 >> 32) ^ c3 ^ key1;
    c1 = static_cast<std::uint32_t>(product1);
    c3 = static_cast<std::uint32_t>(product0);
    key0 += kWeyl0;
    key1 += kWeyl1;
  }
  return {{c0, c1, c2, c3}};
}

inline PhiloxBlock philox(std::uint64_t key, std::uint64_t counter_low, std::uint64_t counter_high) {
  const PhiloxWords words = philox_words(key, counter_low, counter_high);
  return {words.at[0], words.at[1], words.at[2], words.at[3]};
}

// Word w of philox(key, first_low + i, counter_high) as at[w][i].
template <int kBlocks>
struct PhiloxColumns {
  std::uint32_t at[4][kBlocks];
};

// Side by side on vector registers.
template <int kBlocks>
inline PhiloxColumns<kBlocks> philox_columns(std::uint64_t key, std::uint64_t first_low, std::uint64_t counter_high) {
  constexpr std::uint32_t kMultiplier0 = 0xD2511F53u, kMultiplier1 = 0xCD9E8D57u;
  constexpr std::uint32_t kWeyl0 = 0x9E3779B9u, kWeyl1 = 0xBB67AE85u;
  std::uint32_t key0 = static_cast<std::uint32_t>(key), key1 = static_cast<std::uint32_t>(key >> 32);
  PhiloxColumns<kBlocks> columns;
  auto& [c0, c1, c2, c3] = columns.at;
  for (int i = 0; i < kBlocks; ++i) {
    c0[i] = static_cast<std::uint32_t>(first_low + i);
    c1[i] = static_cast<std::uint32_t>((first_low + i) >> 32);
    c2[i] = static_cast<std::uint32_t>(counter_high);
    c3[i] = static_cast<std::uint32_t>(counter_high >> 32);
  }
  for (int round = 0; round < 10; ++round) {
    for (int i = 0; i < kBlocks; ++i) {
      const std::uint64_t product0 = std::uint64_t{kMultiplier0} * c0[i];
      const std::uint64_t product1 = std::uint64_t{kMultiplier1} * c2[i];
      c0[i] = static_cast<std::uint32_t>(product1 >> 32) ^ c1[i] ^ key0;
      c2[i] = static_cast<std::uint32_t>(product0 >> 32) ^ c3[i] ^ key1;
      c1[i] = static_cast<std::uint32_t>(product1);
      c3[i] = static_cast<std::uint32_t>(product0);
    }
    key0 += kWeyl0;
    key1 += kWeyl1;
  }
  return columns;
}

// blocks[i] = philox(key, first_low + i, counter_high).
template <int kBlocks>
std::array<PhiloxBlock, kBlocks> philox_blocks(std::uint64_t key, std::uint64_t first_low, std::uint64_t counter_high) {
  const PhiloxColumns<kBlocks> columns = philox_columns<kBlocks>(key, first_low, counter_high);
  std::array<PhiloxBlock, kBlocks> blocks;
  const auto& [c0, c1, c2, c3] = columns.at;
  for (int i = 0; i < kBlocks; ++i) blocks[i] = {c0[i], c1[i], c2[i], c3[i]};
  return blocks;
}

// Uniform floats f(seed, stream, index) in [low, high).
class CounterUniform {
 public:
  CounterUniform(std::uint64_t seed, std::uint64_t stream) : seed_(seed), stream_(stream) {}

  // values[k] = number `first + k` of the stream.
  void fill(float* values, std::uint64_t first, std::int64_t count, float low, float high) const {
    const float width = high - low;
    for (std::int64_t k = 0; k < count;) {
      const std::uint64_t index = first + k;
      const PhiloxBlock block = philox(seed_, index / 4, stream_);
      for (std::uint64_t lane = index % 4; lane < 4 && k < count; ++lane, ++k)
        values[k] = low + width * (static_cast<float>(block[lane] >> 8) * 0x1p-24f);
    }
  }

 private:
  std::uint64_t seed_, stream_;
};

// Normal floats f(seed, stream, index) of mean 0, by the method of Box and Muller from two words of a block each.
class CounterNormal {
 public:
  CounterNormal(std::uint64_t seed, std::uint64_t stream) : seed_(seed), stream_(stream) {}

  // values[k] = number `first + k` of the stream.
  void fill(float* values, std::uint64_t first, std::int64_t count, double deviation) const {
    constexpr double kTurn = 6.283185307179586;
    for (std::int64_t k = 0; k < count;) {
      const std::uint64_t index = first + static_cast<std::uint64_t>(k);
      const PhiloxBlock block = philox(seed_, index / 4, stream_);
      for (std::uint64_t lane = index % 4; lane < 4 && k < count; ++lane, ++k) {
        const std::uint64_t pair = lane / 2 * 2;
        const double radius = std::sqrt(-2 * std::log((block[pair] + 1.0) * 0x1p-32));  // of a number in (0, 1]
        const double angle = kTurn * (block[pair + 1] * 0x1p-32);
        values[k] = static_cast<float>(deviation * radius * (lane % 2 ? std::sin(angle) : std::cos(angle)));
      }
    }
  }

 private:
  std::uint64_t seed_, stream_;
};

}  // namespace frugal
