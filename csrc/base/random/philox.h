// Counter-based random numbers: Philox4x32-10 (Salmon, Moraes, Dror, Shaw: "Parallel random numbers: as easy as 1, 2,
// 3", SC 2011). A number is a function of (key, counter), so any part of a stream can be made alone, in any order, on
// any thread or device, and resuming needs no state.
#pragma once

#include <array>
#include <cstdint>

#include "base/device/everywhere.h"

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

}  // namespace frugal
