// A table too large for the machine, of which only the pages that are touched exist.
#pragma once

#include <sys/mman.h>

#include <cstdint>
#include <stdexcept>

#include "memory/row_layout.h"

namespace frugal::benchmarks {

// Anonymous memory of one table, given out by the system page by page; shared, so that the process's own memory
// (RssAnon) is the engine's and not the table's.
class SparseTable {
 public:
  SparseTable(std::int64_t rows, const RowLayout& layout)
      : bytes_(static_cast<std::size_t>(rows * layout.bytes())),
        data_(mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0)) {
    if (data_ == MAP_FAILED) throw std::runtime_error("no address space for the table");
  }
  ~SparseTable() { munmap(data_, bytes_); }
  float* data() const { return static_cast<float*>(data_); }

 private:
  std::size_t bytes_;
  void* data_;
};

}  // namespace frugal::benchmarks
