// A cache policy in parts that share nothing, so that threads decide for them at once.
//
// Row r is row r / parts of the policy of part r % parts. Each part has its share of the slots, one behind the other,
// so that a cache as large as the table still holds all of it.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <vector>

#include "engine/cache_policy.h"

namespace frugal {

template <class Policy>
class PartedPolicy final : public CachePolicy {
 public:
  // rows: of the table. slots: cut to `rows`. parts: a power of two, at most `slots` (throws std::invalid_argument
  // otherwise).
  PartedPolicy(std::int64_t rows, std::int64_t slots, int parts)
      : mask_(parts - 1), bits_(std::countr_zero(static_cast<unsigned>(parts))) {
    if (parts < 1 || (parts & mask_) != 0 || parts > slots || parts > rows)
      throw std::invalid_argument("parts of a cache are a power of two, and have a slot each");
    if (slots > rows) slots = rows;
    of_.reserve(static_cast<std::size_t>(parts));
    for (std::int64_t part = 0; part < parts; ++part) {
      const auto share = [&](std::int64_t all) { return all / parts + (part < all % parts); };
      of_.push_back({Policy(share(rows), share(slots)), static_cast<std::int32_t>(slots_)});
      slots_ += of_.back().policy.slots();
    }
  }

  std::int64_t slots() const override { return slots_; }
  int parts() const override { return static_cast<int>(mask_) + 1; }
  bool wants_count() const override { return of_[0].policy.wants_count(); }

  void touch(const RowUse& use, std::int32_t slot) override {
    Part& part = of_[part_of(use.row)];
    part.policy.touch(in_part(use), slot - part.first_slot);
  }
  void prefetch(std::int64_t row) const override { of_[part_of(row)].policy.prefetch(row >> bits_); }
  void prefetch_touch(std::int64_t row, std::int32_t slot) const override {
    const Part& part = of_[part_of(row)];
    part.policy.prefetch_touch(row >> bits_, slot - part.first_slot);
  }
  std::int32_t admit(const RowUse& use) override {
    Part& part = of_[part_of(use.row)];
    const std::int32_t slot = part.policy.admit(in_part(use));
    return slot == kRejected ? kRejected : part.first_slot + slot;
  }
  void release(std::int64_t row, std::int32_t slot) override {
    Part& part = of_[part_of(row)];
    part.policy.release(row >> bits_, slot - part.first_slot);
  }

 private:
  struct alignas(128) Part {  // or threads would write into each other's lines
    Policy policy;
    std::int32_t first_slot;
  };

  std::size_t part_of(std::int64_t row) const { return static_cast<std::size_t>(row & mask_); }
  RowUse in_part(RowUse use) const {
    use.row >>= bits_;
    return use;
  }

  const std::int64_t mask_;
  const int bits_;
  std::int64_t slots_ = 0;
  std::vector<Part> of_;
};

}  // namespace frugal
