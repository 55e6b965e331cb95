#include "table/host_table.h"

#include <sys/mman.h>

#include <algorithm>
#include <stdexcept>
#include <string>
#include <utility>

#include "base/parallel/thread_pool.h"
#include "base/random/start_numbers.h"
#include "table/half_rows.h"
#include "table/numa.h"

namespace frugal {

namespace {

constexpr std::int64_t kNumbersAtATime = 4096;  // start values that fit a processor's first cache

RowLayout checked_layout(std::int64_t rows, std::int64_t dim, std::int64_t state, RowElement element, TablePart part) {
  if (rows < 1 || dim < 1) throw std::invalid_argument("a table needs at least one row and one column");
  if (state < 0) throw std::invalid_argument("a row cannot have less than no state");
  if (part.part < 0 || part.part >= part.parts) throw std::invalid_argument("there is no such part of a table");
  return RowLayout::for_dim(dim, state, element);
}

}  // namespace

HostTable::HostTable(std::int64_t rows, std::int64_t dim, Sharing sharing, std::int64_t state, RowElement element,
                     TablePart part)
    : rows_(rows), layout_(checked_layout(rows, dim, state, element, part)), part_(part) {
  if (sharing == Sharing::kManaged) {
    manage();
    return;
  }
  map(SharedMapping(sharing == Sharing::kShared ? "frugal-table" : nullptr, mapped_bytes()));
  madvise(all_parts(), mapped_bytes(), MADV_HUGEPAGE);  // a wish: fewer page faults and TLB misses where it is granted
  interleave_pages(all_parts(), mapped_bytes());  // another: all devices and flush threads see the same mean bandwidth
}

HostTable::HostTable(const std::string& path, std::int64_t rows, std::int64_t dim, std::int64_t state,
                     RowElement element, TablePart part)
    : rows_(rows), layout_(checked_layout(rows, dim, state, element, part)), part_(part) {
  SharedMapping memory(path);
  if (memory.bytes() != mapped_bytes())
    throw std::runtime_error("there is no shared table of " + std::to_string(rows) + " x " + std::to_string(dim) +
                             " at " + path);
  map(std::move(memory));
}

HostTable::HostTable(HostTable& other, int part)
    : rows_(other.rows_),
      layout_(checked_layout(other.rows_, other.layout_.dim, other.layout_.state, other.layout_.element,
                             {part, other.part_.parts})),
      part_{part, other.part_.parts},
      memory_(other.memory_),
      managed_(other.managed_),
      data_(other.all_parts() + part * layout_.stride) {}

void HostTable::map(SharedMapping memory) {
  memory_ = std::make_shared<SharedMapping>(std::move(memory));
  data_ = reinterpret_cast<float*>(memory_->data()) + part_.part * layout_.stride;
}

// All threads bring the pages in.
void HostTable::manage() {
  memory_ = std::make_shared<SharedMapping>();
  managed_ = std::make_shared<ManagedMemory>(mapped_bytes());
  data_ = reinterpret_cast<float*>(managed_->data()) + part_.part * layout_.stride;
  default_pool()->parallel_for(rows_, kRowsPerTask, [&](std::int64_t begin, std::int64_t end) {
    std::fill(all_parts() + begin * pitch(), all_parts() + end * pitch(), 0.0f);
  });
}

void HostTable::read(std::int64_t id, float* values) {
  if (layout_.is_half()) return expand_embedding(layout_, row(id), values);
  std::copy_n(row(id), layout_.dim, values);
}

void HostTable::write(std::int64_t id, const float* values) {
  if (layout_.is_half()) return round_embedding_to_nearest(layout_, values, row(id));
  std::copy_n(values, layout_.dim, row(id));
}

void HostTable::init_uniform(float low, float high, std::uint64_t seed, std::uint64_t stream, const FilledPart& part) {
  init(CounterUniform(seed, stream, low, high), part);
}

void HostTable::init_normal(float mean, float deviation, std::uint64_t seed, std::uint64_t stream,
                            const FilledPart& part) {
  init(CounterNormal(seed, stream, mean, deviation), part);
}

template <class Numbers>
void HostTable::init(const Numbers& numbers, const FilledPart& part) {
  const std::int64_t dim = layout_.dim, whole_dim = part.whole_dim ? part.whole_dim : dim;
  const auto ranges = part.whole_dim ? part.ranges : decltype(part.ranges){{0, dim}};
  std::int64_t filled = 0;
  for (const auto& [first, count] : ranges) filled += first < 0 || first + count > whole_dim ? whole_dim + 1 : count;
  if (filled != dim) throw std::invalid_argument("ranges of columns that do not fill a row");
  const std::int64_t rows = part.count < 0 ? rows_ - part.first : part.count;
  if (part.first < 0 || rows < 0 || part.first + rows > rows_) throw std::invalid_argument("rows outside of the table");
  const bool whole_rows = filled == whole_dim && ranges.size() == 1;
  const std::int64_t at_a_time = std::max<std::int64_t>(1, kNumbersAtATime / dim);
  default_pool()->parallel_for(rows, kRowsPerTask, [&](std::int64_t begin, std::int64_t end) {
    std::vector<float> values(static_cast<std::size_t>(at_a_time * dim));
    for (std::int64_t id = part.first + begin; id < part.first + end; id += at_a_time) {
      const std::int64_t count = std::min(at_a_time, part.first + end - id);
      if (whole_rows && !part.ids)
        numbers.fill(values.data(), static_cast<std::uint64_t>(id * dim), count * dim);
      else
        for (std::int64_t i = 0, at = 0; i < count; ++i)
          for (const auto& [first, columns] : ranges) {
            const std::int64_t drawn = part.ids ? part.ids(id + i) : id + i;
            numbers.fill(values.data() + at, static_cast<std::uint64_t>(drawn * whole_dim + first), columns);
            at += columns;
          }
      for (std::int64_t i = 0; i < count; ++i) {
        write(id + i, values.data() + i * dim);
        std::fill_n(row(id + i) + layout_.state_offset(), layout_.state, 0.0f);
      }
    }
  });
}

}  // namespace frugal
