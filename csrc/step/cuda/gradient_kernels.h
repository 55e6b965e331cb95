// The gradients of one step on a CUDA device; the reference is shared_pass.cpp and of what RowUpdates adds before it
// applies them.
//
// The step's distinct rows ("records": embedding, state, padding) are gathered on the way, or have been, and the caller
// hands the gradients with their mean squares to the update of rows/cuda. Calls only enqueue work on the stream;
// sizes that change from step to step (U, R) are read from the device, so that a captured graph serves every step of
// one direction. Same bits as the CPU, except
// the sums of losses, whose order differs. RESCAL and TransR have no kernels yet.
#pragma once

#include <cstdint>

#include "comm/cuda/exchange_kernels.h"
#include "models/loss.h"
#include "models/model.h"
#include "rows/row_program.h"

namespace frugal::cuda {

// A batch (sampler/batch.h) in device memory, as step/step_block.h packs it.
struct DeviceBatch {
  bool corrupt_head;
  std::int64_t positives, chunk_size, negatives_per_chunk;
  std::int64_t most_entities, most_relations;  // U <= 2 B + N, R <= B: what the launches cover
  const std::int32_t* counts;                  // (2,): U, R
  const std::int32_t *head_slot, *tail_slot, *relation_slot, *negative_slot;
  const std::int32_t *positive_offset, *positive_occurrence, *negative_offset, *negative_occurrence;
  const std::int32_t* relation_offset;
  const float* weight;  // edge importance, or null
};

// Rows in device memory, `stride` floats apart.
struct DeviceRows {
  float* data;
  std::int64_t stride;
};

// Where a step's records are before they have been gathered: `reads.wants` tells which of them are still in `memory`.
struct RecordReads {
  RowMemory memory;
  RowReads reads;  // of no rows: all records have been gathered
};

// Device memory that the kernels use: floats as sized by workspace_floats, zeroed once.
struct DeviceGradients {
  DeviceRows positive;  // (U, entity_dim): sum over a row's positive occurrences, with regularization; else untouched
  DeviceRows negative;  // (N, entity_dim): each sampled negative, with regularization
  DeviceRows relation;  // (B, relation_dim): each edge, with regularization
  double* losses;       // (4,): positive, negative, regularization, total are added to these
  float* workspace;
  // Mean squares of the rows above, for the update.
  float *positive_square = nullptr, *negative_square = nullptr, *relation_square = nullptr;
};

// Of the products of queries, negatives and weights. kTf32x3, kTf32: on tensor cores, in three passes or one
// (step/cuda/tensor_tiles.cuh); a device without them computes as for kFloat32, and so do models without products.
enum class Products { kFloat32, kTf32x3, kTf32 };

// Floats that ranks with columns exchange of a positive besides the weights of its pairs (device_step.cuh).
inline constexpr std::int64_t kQueryStateFloats = 8;

// Floats of workspace for a model and batch sizes.
std::int64_t workspace_floats(const ModelSpec& model, bool degree_negatives, std::int64_t positives,
                              std::int64_t chunk_size, std::int64_t negatives_per_chunk);

// entities, relations: the records, and where they are before. exchange: of ranks that each have some columns of all
// rows: they add up their raw scores, share the work of the losses and hand each other the weights; else null. With it
// the mean squares, of the rank's own columns, do not go to `out` but to its part in the exchange: entities', then
// negatives', then relations'. Throws
// std::invalid_argument for a model without kernels or a chunk that does not fit, DeviceError if a launch fails.
void compute_gradients(const ModelSpec& model, const LossSpec& loss, bool degree_negatives, const DeviceBatch& batch,
                       DeviceRows entities, DeviceRows relations, const RecordReads& entity_reads,
                       const RecordReads& relation_reads, const DeviceGradients& out, Products products,
                       const DeviceExchange* exchange, std::uintptr_t stream);

}  // namespace frugal::cuda
