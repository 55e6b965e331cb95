// The cache policy that needs no index: a static hot set.
#pragma once

#include <cstdint>
#include <iterator>
#include <span>

#include "engine/cache_policy.h"
#include "engine/numbered_rows.h"

namespace frugal {

// A fixed set of rows, each with its own slot: admitted when first used, never evicted.
class StaticHotSet final : public CachePolicy {
 public:
  // rows: distinct.
  explicit StaticHotSet(std::span<const std::int64_t> rows) : hot_(rows), slots_(std::ssize(rows)) {}
  std::int64_t slots() const override { return slots_; }
  int parts() const override { return kParts; }  // each row has a slot of its own, so any division will do
  bool keeps_for_good() const override { return true; }
  bool wants(std::int64_t row) const override { return hot_.has(row); }
  void touch(const RowUse&, std::int32_t) override {}
  void prefetch_wants(std::int64_t row) const override { hot_.prefetch(row); }
  std::int32_t admit(const RowUse& use) override { return hot_.has(use.row) ? hot_.number_of(use.row) : kRejected; }
  void release(std::int64_t, std::int32_t) override {}

 private:
  static constexpr int kParts = 4;

  NumberedRows hot_;
  std::int64_t slots_;
};

}  // namespace frugal
