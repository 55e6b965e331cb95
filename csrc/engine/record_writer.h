// Brings a record from staging into its host row, for a flush worker.
#pragma once

#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <vector>

#include "engine/config.h"
#include "engine/p2f/inbox.h"
#include "engine/segment.h"
#include "table/half_rows.h"

namespace frugal {

class RecordWriter {
 public:
  RecordWriter(const EngineConfig& config, std::shared_ptr<Segment> segment)
      : segment_(std::move(segment)),
        update_(config.update),
        layout_(config.layout),
        floats_(layout_.in_floats()),
        rounding_(config.rounding),
        host_rows_(config.host_rows),
        wide_(layout_.is_half() ? static_cast<std::size_t>(floats_.stride) : 0) {}

  std::int64_t value_bytes() const { return layout_.record_floats() * 4; }

  void write_value(std::int64_t row, int rank, std::int64_t position) const {
    std::memcpy(host_row(row), segment_->staged(rank, position), static_cast<std::size_t>(value_bytes()));
  }

  // Of a step of the engine. Sources in canonical order: an entry is the concatenation of the ranks' occurrences. A row
  // in half precision is rounded when all have been applied. Returns the bytes read.
  std::int64_t apply_gradients(std::int64_t row, std::int64_t step, std::span<const GradientSource> sources) {
    std::int64_t applied = 0;
    float* const record = layout_.is_half() ? wide_.data() : host_row(row);
    if (layout_.is_half()) expand_record(layout_, host_row(row), record);
    for (std::size_t i = 0; i < sources.size();) {
      gradients_.clear();
      const std::int32_t entry = sources[i].entry;
      for (; i < sources.size() && sources[i].entry == entry; ++i)
        for (std::int32_t k = 0; k < sources[i].count; ++k)
          gradients_.push_back(segment_->staged(sources[i].rank, sources[i].position + k * floats_.stride));
      if (!gradients_.empty()) update_->apply_in_step(step, record, gradients_, floats_);
      applied += static_cast<std::int64_t>(gradients_.size());
    }
    if (layout_.is_half())
      round_record(layout_, record, host_row(row), rounding_.of(segment_->first_step() + step, row));
    return applied * layout_.dim * 4;
  }

  // The first lines of what write_value will touch; the hardware follows from there.
  void prefetch(std::int64_t row, int rank, std::int64_t position) const {
    const float* from = segment_->staged(rank, position);
    const float* to = host_row(row);
    for (int line = 0; line < 4; ++line) {
      __builtin_prefetch(from + line * 16, 0, 0);
      __builtin_prefetch(to + line * 16, 1, 0);
    }
  }

 private:
  float* host_row(std::int64_t row) const { return host_rows_ + row * layout_.stride; }

  const std::shared_ptr<Segment> segment_;
  const std::shared_ptr<const RowUpdate> update_;
  const RowLayout layout_, floats_;
  const Rounding rounding_;
  float* const host_rows_;
  std::vector<float> wide_;  // a row in half precision while it is updated
  std::vector<const float*> gradients_;  // of the entry being applied; of the owner's thread
};

}  // namespace frugal
