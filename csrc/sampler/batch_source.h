// Where batches come from: made here, or by other processes.
#pragma once

#include <cstdint>
#include <vector>

#include "sampler/batch.h"
#include "sampler/batch_indexer.h"

namespace frugal {

// A thread's data in addition to the batch that it fills.
struct SamplerScratch {
  BatchIndexer indexer;
  std::vector<std::int64_t> edge;  // indices of the batch's edges
};

// The most that the batches of a source hold.
struct BatchLimits {
  std::int64_t positives = 0, negatives = 0, entities = 0, relations = 0;
  bool weighted = false;
};

// A batch is a pure function of its step: any thread asks for any step, in any order.
class BatchSource {
 public:
  virtual ~BatchSource() = default;

  virtual SamplerScratch scratch() const = 0;
  virtual BatchLimits limits() const = 0;

  // Overwrites `batch`, reusing its memory. Thread-safe with one scratch per thread. Throws std::out_of_range if an
  // edge names an id outside the graph.
  virtual void sample(std::int64_t step, Batch& batch, SamplerScratch& scratch) const = 0;

  // Ends calls of sample that wait for others; they and all later ones throw std::runtime_error.
  virtual void close() const {}
};

}  // namespace frugal
