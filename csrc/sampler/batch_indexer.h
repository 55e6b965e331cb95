// Works out which distinct entities and relations a batch touches, and where.
#pragma once

#include <cstdint>
#include <vector>

#include "sampler/batch.h"

namespace frugal {

// Holds scratch memory, so one per thread.
class BatchIndexer {
 public:
  BatchIndexer(std::int64_t entities, std::int64_t relations);

  // Fills every field of `batch` from `entities` on from head, relation, tail and negative. Throws std::out_of_range if
  // an id is not below the number of entities or relations, std::invalid_argument if the arrays do not fit together.
  void index(Batch& batch);

 private:
  void append(const std::vector<std::int64_t>& ids, std::int64_t bound, const char* what);
  void sort(int id_bits);

  std::int64_t entities_, relations_;
  int occurrence_bits_ = 0;                  // a key is id << occurrence_bits_ | occurrence
  std::vector<std::uint64_t> keys_, spare_;  // what is sorted, and where a pass of the sort writes
  std::vector<std::int32_t> slot_;           // by occurrence
};

}  // namespace frugal
