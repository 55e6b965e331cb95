#include "data/name_table.h"

#include <functional>
#include <limits>
#include <stdexcept>

namespace frugal {

std::uint32_t NameTable::hash_of(std::string_view name) {
  const std::uint64_t hash = std::hash<std::string_view>{}(name);
  return static_cast<std::uint32_t>(hash ^ (hash >> 32));
}

NameTable::NameTable() : slots_(1024) {
  constexpr std::int64_t kBegin = 0;
  offsets_.append(&kBegin, 1);
}

NameTable::NameTable(std::string_view bytes, const std::int64_t* offsets, std::int64_t names) : NameTable() {
  if (offsets[0] != 0 || offsets[names] != static_cast<std::int64_t>(bytes.size()))
    throw std::invalid_argument("offsets of names do not fit their bytes");
  for (std::int64_t id = 0; id < names; ++id) {
    if (offsets[id] > offsets[id + 1] || offsets[id + 1] > offsets[names])
      throw std::invalid_argument("offsets of names do not ascend");
    if (add(bytes.substr(offsets[id], offsets[id + 1] - offsets[id])) != id)
      throw std::invalid_argument("a name occurs twice");
  }
}

std::size_t NameTable::locate(std::string_view wanted, std::uint32_t hash) const {
  const std::size_t mask = slots_.size() - 1;
  std::size_t at = hash & mask;
  while (slots_[at].id >= 0 && (slots_[at].hash != hash || name(slots_[at].id) != wanted)) at = (at + 1) & mask;
  return at;
}

std::array<std::uint32_t, NameTable::kTogether> NameTable::approach(std::span<const std::string_view> names) const {
  const std::size_t mask = slots_.size() - 1;
  std::array<std::uint32_t, kTogether> hashes;
  std::array<std::int32_t, kTogether> likely;
  for (std::size_t i = 0; i < names.size(); ++i) {
    hashes[i] = hash_of(names[i]);
    __builtin_prefetch(&slots_[hashes[i] & mask]);
  }
  for (std::size_t i = 0; i < names.size(); ++i) {
    std::size_t at = hashes[i] & mask;
    while (slots_[at].id >= 0 && slots_[at].hash != hashes[i]) at = (at + 1) & mask;
    likely[i] = slots_[at].id;
    if (likely[i] >= 0) __builtin_prefetch(&offsets_[likely[i]]);
  }
  for (std::size_t i = 0; i < names.size(); ++i)
    if (likely[i] >= 0) __builtin_prefetch(bytes_.data() + offsets_[likely[i]]);
  return hashes;
}

void NameTable::find(std::span<const std::string_view> names, std::int32_t* ids) const {
  while (!names.empty()) {
    const auto some = names.first(std::min(kTogether, names.size()));
    const auto hashes = approach(some);
    for (std::size_t i = 0; i < some.size(); ++i) *ids++ = static_cast<std::int32_t>(find(some[i], hashes[i]));
    names = names.subspan(some.size());
  }
}

void NameTable::add(std::span<const std::string_view> names, std::int32_t* ids) {
  while (!names.empty()) {
    const auto some = names.first(std::min(kTogether, names.size()));
    const auto hashes = approach(some);
    for (std::size_t i = 0; i < some.size(); ++i) *ids++ = static_cast<std::int32_t>(add(some[i], hashes[i]));
    names = names.subspan(some.size());
  }
}

std::int64_t NameTable::add(std::string_view name, std::uint32_t hash) {
  std::size_t at = locate(name, hash);
  if (slots_[at].id >= 0) return slots_[at].id;
  if (size() == std::numeric_limits<std::int32_t>::max()) throw std::length_error("more than 2^31 - 1 distinct names");
  if (static_cast<std::size_t>(size() + 1) * 4 > slots_.size() * 3) {
    grow();
    at = locate(name, hash);
  }
  bytes_.append(name.data(), name.size());
  const auto end = static_cast<std::int64_t>(bytes_.size());
  offsets_.append(&end, 1);
  slots_[at] = {hash, static_cast<std::int32_t>(size() - 1)};
  return size() - 1;
}

NameTable::Packed NameTable::release() {
  const std::int64_t names = size();
  const Packed packed{bytes_.release(), offsets_.release(), names};
  *this = NameTable();
  return packed;
}

void NameTable::grow() {
  std::vector<Slot> larger(slots_.size() * 2);
  const std::size_t mask = larger.size() - 1;
  for (const Slot& slot : slots_) {
    if (slot.id < 0) continue;
    std::size_t at = slot.hash & mask;
    while (larger[at].id >= 0) at = (at + 1) & mask;
    larger[at] = slot;
  }
  slots_.swap(larger);
}

}  // namespace frugal
