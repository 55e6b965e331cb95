// A cache index for any 64-bit keys but kNoKey: a set-associative hash table with one-byte digests.
//
// A key's hash names its set and an 8-bit digest. Finding compares the digests of the set eight at a time and then the
// few keys whose digest agrees (one in 255 by chance), so its cost does not grow with the load up to a full table.
#pragma once

#include <cstdint>
#include <cstring>
#include <stdexcept>
#include <string>
#include <vector>

#include "cache/cache_index.h"

namespace frugal {

class DigestIndex final : public CacheIndex {
 public:
  DigestIndex(Slot capacity, ScorePolicy policy) : CacheIndex(capacity, policy, kWays), digests_(sets()) {}

 private:
  // A set's digests fill two lines of cache; 0 is a free slot (or one beyond a smaller set's end).
  struct alignas(kWays) Digests {
    std::uint8_t way[kWays] = {};
  };

  static std::uint64_t hash(Key key) {  // finalizer of splitmix64: every output bit depends on every input bit
    std::uint64_t x = static_cast<std::uint64_t>(key) + 0x9e3779b97f4a7c15u;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
  }
  static std::uint8_t digest(std::uint64_t hash) { return static_cast<std::uint8_t>((hash & 0xffff) % 255 + 1); }
  std::int64_t set_of_hash(std::uint64_t hash) const {  // upper bits; the digest takes the lower ones
    return static_cast<std::int64_t>((hash >> 32) * static_cast<std::uint64_t>(sets()) >> 32);
  }

  Key checked(Key key) const override {
    if (key == kNoKey) throw std::out_of_range("key " + std::to_string(key) + " is reserved: it stands for no key");
    return key;
  }
  std::int64_t set_of(Key key) const override { return set_of_hash(hash(key)); }

  Slot locate(Key key) const override {
    const std::uint64_t hashed = hash(key);
    const std::int64_t set = set_of_hash(hashed);
    const Slot first = slots_of_set(set).first;
    constexpr std::uint64_t kOnes = 0x0101010101010101u;
    const std::uint64_t pattern = kOnes * digest(hashed);
    for (int group = 0; group < kWays; group += 8) {
      std::uint64_t word;
      std::memcpy(&word, digests_[set].way + group, sizeof word);
      word ^= pattern;
      // A byte that is zero now agreed. The borrow can also mark bytes above such a one; comparing the key sorts that
      // out.
      for (std::uint64_t equal = (word - kOnes) & ~word & (kOnes << 7); equal != 0; equal &= equal - 1) {
        const int way = group + __builtin_ctzll(equal) / 8;
        if (digests_[set].way[way] != 0 && key_at(first + way) == key) return first + way;
      }
    }
    return kNoSlot;
  }

  void placed(Key key, Slot slot) override { digest_at(key, slot) = digest(hash(key)); }
  void removed(Key key, Slot slot) override { digest_at(key, slot) = 0; }
  void prefetch(Key key) const override {
    const auto* way = digests_[set_of(key)].way;
    __builtin_prefetch(way);
    __builtin_prefetch(way + kWays / 2);
  }

  std::uint8_t& digest_at(Key key, Slot slot) {
    const std::int64_t set = set_of(key);
    return digests_[set].way[slot - slots_of_set(set).first];
  }

  std::vector<Digests> digests_;
};

}  // namespace frugal
