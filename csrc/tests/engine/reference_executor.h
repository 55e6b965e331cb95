// A rank on the CPU, for tests: follows plans with plain loops, its cache a buffer.
//
// What a device kernel has to do is exactly what step() does, in the same order.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "engine/engine_client.h"
#include "table/row_layout.h"
#include "table/row_update.h"

namespace frugal {

// What one rank uses in one step.
struct StepWork {
  std::vector<std::int64_t> rows;         // ascending, distinct
  std::vector<std::int32_t> occurrences;  // entry after entry, rows.size() numbers each
};

class ReferenceExecutor {
 public:
  // One gradient: of occurrence `k` of `row` in `entry`, from the row's value at the start of the step.
  using Gradient = std::function<void(std::int64_t step, int rank, int entry, std::int64_t row, int k,
                                      const float* value, float* gradient)>;
  // Called with every row (dim floats and state) that a step reads, before anything is updated.
  using Read = std::function<void(std::int64_t step, std::int64_t row, const float* record)>;

  // host_rows: the table as this process sees it.
  ReferenceExecutor(EngineClient& client, const RowLayout& layout, int entries, float* host_rows,
                    std::int64_t cache_slots, std::shared_ptr<const RowUpdate> update, Gradient gradient);

  void set_read(Read read) { read_ = std::move(read); }

  // Runs a registered step. Returns the nanoseconds it waited at the gate.
  std::int64_t step(std::int64_t step, const StepWork& work);
  // Sends the write-backs that may leave when all steps before `step` have run.
  void serve_write_backs(std::int64_t step);
  // Collective; afterwards the host rows hold everything.
  void drain();

 private:
  float* cached(std::int64_t slot) { return cache_.data() + slot * layout_.stride; }
  float* host(std::int64_t row) { return host_rows_ + row * layout_.stride; }
  void copy(float* to, const float* from) const;

  EngineClient& client_;
  const RowLayout layout_;
  const int entries_;
  float* const host_rows_;
  const std::shared_ptr<const RowUpdate> update_;
  const Gradient gradient_;
  Read read_;
  std::vector<float> cache_, values_, gradients_;
};

}  // namespace frugal
