// Which triples a graph has: their numbers in a table with open addressing.
#pragma once

#include <cstdint>
#include <vector>

#include "sampler/id_array.h"

namespace frugal {

class TripleSet {
 public:
  TripleSet() = default;  // of none
  // Throws std::invalid_argument for so many entities and relations that a triple has no number of 64 bits.
  TripleSet(const IdArray& head, const IdArray& relation, const IdArray& tail, std::int64_t entities,
            std::int64_t relations);

  bool contains(std::int64_t head, std::int64_t relation, std::int64_t tail) const;

 private:
  // From 1, for 0 is a free place.
  std::uint64_t number(std::int64_t head, std::int64_t relation, std::int64_t tail) const {
    return (static_cast<std::uint64_t>(head) * relations_ + static_cast<std::uint64_t>(relation)) * entities_ +
           static_cast<std::uint64_t>(tail) + 1;
  }
  std::uint64_t place(std::uint64_t number) const;  // that it has, or would have

  std::uint64_t entities_ = 0, relations_ = 0;
  std::vector<std::uint64_t> table_;  // a power of two of them, at least twice the triples
};

}  // namespace frugal
