// Rows of one rank on the CPU, cached as on a GPU: hot ones in a second buffer, the rest read from the host table,
// updates flushed by the P2F engine, which may serve other ranks in other processes. Everything but the bus is
// exercised as on a device.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/engine_client.h"
#include "store/step_rows.h"
#include "table/host_table.h"

namespace frugal {

class CachedRows final : public StepRows {
 public:
  // slots: of this rank's cache policy. Table and client must outlive this.
  CachedRows(HostTable& table, EngineClient& client);

  const RowLayout& layout() const override { return table_.layout(); }
  void announce(std::int64_t step, std::span<const std::int64_t> rows,
                std::span<const std::int32_t> occurrences) override;
  void begin(std::int64_t step) override;
  std::span<const std::int64_t> rows() const override { return plan_.rows; }
  std::span<float* const> source() const override { return source_; }
  std::span<float* const> destination() const override { return destination_; }
  std::span<float* const> gradient() const override { return gradient_; }
  void end() override;
  void drain() override;


 private:
  float* slot(std::int64_t index) { return cache_.row(index); }
  void serve_write_backs(std::int64_t step);

  HostTable& table_;
  EngineClient& client_;
  HostTable cache_;  // "device memory"
  StepPlan plan_;
  std::int64_t first_step_ = -1;  // the engine counts from 0, a resumed run does not
  std::vector<float*> source_;
  std::vector<float*> destination_;
  std::vector<float*> gradient_;
};

}  // namespace frugal
