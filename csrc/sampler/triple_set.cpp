#include "sampler/triple_set.h"

#include <bit>
#include <stdexcept>

namespace frugal {

TripleSet::TripleSet(const IdArray& head, const IdArray& relation, const IdArray& tail, std::int64_t entities,
                     std::int64_t relations)
    : entities_(static_cast<std::uint64_t>(entities)), relations_(static_cast<std::uint64_t>(relations)) {
  __extension__ using Wide = unsigned __int128;
  if (static_cast<Wide>(entities_) * relations_ * entities_ >= ~std::uint64_t{0}) {
    throw std::invalid_argument("the graph is too large for its triples to be told from others by 64 bits");
  }
  table_.resize(std::bit_ceil(2 * static_cast<std::uint64_t>(head.size()) + 1));
  for (std::int64_t i = 0; i < head.size(); ++i) {
    const std::uint64_t key = number(head[i], relation[i], tail[i]);
    table_[place(key)] = key;
  }
}

std::uint64_t TripleSet::place(std::uint64_t number) const {
  std::uint64_t hash = number * 0x9e3779b97f4a7c15u;  // Fibonacci hashing: the upper bits depend on all
  hash ^= hash >> 32;
  const std::uint64_t mask = table_.size() - 1;
  std::uint64_t at = hash & mask;
  while (table_[at] != 0 && table_[at] != number) at = (at + 1) & mask;
  return at;
}

bool TripleSet::contains(std::int64_t head, std::int64_t relation, std::int64_t tail) const {
  return !table_.empty() && table_[place(number(head, relation, tail))] != 0;
}

}  // namespace frugal
