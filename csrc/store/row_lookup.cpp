#include "store/row_lookup.h"

#include <algorithm>
#include <stdexcept>
#include <string>
#include <vector>

#include "base/parallel/callers_threads.h"
#include "rows/cpu/summed_update.h"

namespace frugal {
namespace {

constexpr std::int64_t kFloatsPerTask = 1 << 15;  // below this a second thread costs more than it saves
constexpr std::int64_t kAhead = 16;        // rows whose lines are asked for before they are copied
constexpr std::int64_t kLine = 16;         // floats

// out[i] = dim floats of find(i), zeros where that is null.
template <class Find>
void gather(std::int64_t count, std::int64_t dim, float* out, const Find& find) {
  const std::int64_t grain = std::max<std::int64_t>(1, kFloatsPerTask / dim);
  run_ranges(count, grain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      if (i + kAhead < end)
        if (const float* next = find(i + kAhead))
          for (std::int64_t k = 0; k < dim; k += kLine) __builtin_prefetch(next + k);
      const float* const row = find(i);
      if (row != nullptr)
        std::copy_n(row, dim, out + i * dim);
      else
        std::fill_n(out + i * dim, dim, 0.0f);
    }
  });
}

}  // namespace

void gather_ids(HostTable& table, const std::int64_t* ids, std::int64_t count, float* out) {
  for (std::int64_t i = 0; i < count; ++i)
    if (ids[i] != kNoRow && (ids[i] < 0 || ids[i] >= table.rows()))
      throw std::out_of_range("id " + std::to_string(ids[i]) + " at position " + std::to_string(i) +
                              " is outside the table of " + std::to_string(table.rows()) + " rows");
  gather(count, table.layout().dim, out,
         [&](std::int64_t i) -> const float* { return ids[i] == kNoRow ? nullptr : table.row(ids[i]); });
}

void gather_lookup(const StepRows& rows, const Lookup& lookup, float* out) {
  const auto source = rows.source();
  gather(lookup.count(), rows.layout().dim, out, [&](std::int64_t i) -> const float* {
    const auto u = static_cast<std::size_t>(lookup.inverse()[static_cast<std::size_t>(i)]);
    return u < source.size() ? source[u] : nullptr;
  });
}

void update_table(HostTable& table, const Lookup& lookup, const float* values, std::int64_t stride,
                  const std::int32_t* order, const UpdateRule& rule) {
  std::vector<float*> records;
  records.reserve(lookup.rows().size());
  for (const std::int64_t row : lookup.rows()) records.push_back(table.row(row));
  cpu::update_from_gradients({records.data(), records.data(), nullptr, static_cast<std::int64_t>(records.size()),
                              table.layout().dim},
                             {values, stride, lookup.offset().data(), order}, rule);
}

void update_step(const StepRows& rows, const Lookup& lookup, const float* values, std::int64_t stride,
                 const std::int32_t* order, const UpdateRule& rule) {
  cpu::update_from_gradients({rows.source().data(), rows.destination().data(), rows.gradient().data(),
                              static_cast<std::int64_t>(rows.source().size()), rows.layout().dim},
                             {values, stride, lookup.offset().data(), order}, rule);
}

}  // namespace frugal
