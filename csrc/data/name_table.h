// Names and their ids: a hash table from name to id whose names lie one after the other in one block of bytes.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "data/growing_array.h"

namespace frugal {

// Many threads may call find at once; add excludes every other call.
class NameTable {
 public:
  NameTable();

  // The names that another table has released. Throws std::invalid_argument if they are none: offsets that
  // do not begin at 0, ascend and end at the number of bytes, or a name that occurs twice.
  NameTable(std::string_view bytes, const std::int64_t* offsets, std::int64_t names);

  std::int64_t size() const { return static_cast<std::int64_t>(offsets_.size()) - 1; }

  // The id of `name`, or -1.
  std::int64_t find(std::string_view name) const { return find(name, hash_of(name)); }

  // The id of `name`, which is the next one (size()) if the name is new. At most 2^31 - 1 names: throws
  // std::length_error beyond.
  std::int64_t add(std::string_view name) { return add(name, hash_of(name)); }

  // The same for many names in their order. In a large table a lookup waits for memory three times (slot, offset,
  // name); these let the lookups wait together.
  void find(std::span<const std::string_view> names, std::int32_t* ids) const;
  void add(std::span<const std::string_view> names, std::int32_t* ids);

  std::string_view name(std::int64_t id) const {
    return {bytes_.data() + offsets_[id], static_cast<std::size_t>(offsets_[id + 1] - offsets_[id])};
  }

  // The names in the order of their ids, moved out: name i is bytes[offsets[i] .. offsets[i + 1]), and both are to be
  // freed with std::free (bytes is null if all names are empty). The table is empty afterwards.
  struct Packed {
    char* bytes;
    std::int64_t* offsets;  // (names + 1,)
    std::int64_t names;
  };
  Packed release();

 private:
  struct Slot {
    std::uint32_t hash = 0;
    std::int32_t id = -1;  // -1: free
  };

  static constexpr std::size_t kTogether = 64;

  static std::uint32_t hash_of(std::string_view name);
  std::int64_t find(std::string_view name, std::uint32_t hash) const { return slots_[locate(name, hash)].id; }
  std::int64_t add(std::string_view name, std::uint32_t hash);

  // Hashes at most kTogether names and starts to load what looking them up will touch.
  std::array<std::uint32_t, kTogether> approach(std::span<const std::string_view> names) const;

  // The slot that holds `name`, or the free one where it belongs.
  std::size_t locate(std::string_view name, std::uint32_t hash) const;
  void grow();

  GrowingArray<char> bytes_;
  GrowingArray<std::int64_t> offsets_;  // (size() + 1,)
  std::vector<Slot> slots_;             // a power of two, at most three quarters in use, probed linearly
};

}  // namespace frugal
