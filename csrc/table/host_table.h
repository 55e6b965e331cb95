// An embedding table in one mapping of host memory, rows a fixed distance apart.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/parallel/shared_mapping.h"
#include "table/managed_memory.h"
#include "table/row_layout.h"

namespace frugal {

enum class Sharing {
  kPrivate,  // this process alone
  kShared,   // so do children made by fork, and processes that attach
  kManaged,  // this process alone, and CUDA devices that it is mapped for; see managed_memory.h
};

// Several tables of the same shape may share a mapping, row i of each behind that of the one before, then row i + 1.
struct TablePart {
  int part = 0, parts = 1;
};

// The rows that start values are for: `count` rows from `first` on, -1 for all that follow. Of rows that are whole_dim
// long this table has the columns of `ranges` (first, count), one behind the other; whole_dim is 0 for a table that has
// all. ids: the id by which a row's numbers are drawn, where a table has some rows of a larger one; none: the row
// itself.
struct FilledPart {
  using RowIds = std::function<std::int64_t(std::int64_t row)>;

  std::int64_t first = 0, count = -1;
  std::int64_t whole_dim = 0;
  std::vector<std::pair<std::int64_t, std::int64_t>> ranges = {};
  RowIds ids = {};
};

// Rows are zero at first. The mapping goes with the last table that has a part of it. Not copyable.
class HostTable {
 public:
  // rows >= 1, dim >= 1 elements, state >= 0 floats of optimizer state behind each row. Throws std::runtime_error
  // with sizes if the system refuses the mapping, std::invalid_argument for a part that is none.
  HostTable(std::int64_t rows, std::int64_t dim, Sharing sharing, std::int64_t state = 1,
            RowElement element = RowElement::kFloat32, TablePart part = {});
  // A shared table that is there already, of this process or another, which must still live; path and all else but the
  // part are that table's. Throws std::runtime_error if the path is no table of that size.
  HostTable(const std::string& path, std::int64_t rows, std::int64_t dim, std::int64_t state = 1,
            RowElement element = RowElement::kFloat32, TablePart part = {});
  // Another part of the same mapping, in this process.
  HostTable(HostTable& other, int part);
  HostTable(const HostTable&) = delete;
  HostTable& operator=(const HostTable&) = delete;

  std::int64_t rows() const { return rows_; }
  const RowLayout& layout() const { return layout_; }
  std::size_t bytes() const { return static_cast<std::size_t>(rows_ * layout_.bytes()); }
  float* data() { return data_; }  // row 0
  std::int64_t pitch() const { return part_.parts * layout_.stride; }  // floats from one row to the next
  // All parts: rows() rows of pitch() floats.
  float* all_parts() { return data_ - part_.part * layout_.stride; }
  // Where other processes attach; empty for a private table. No name in a file system, so nothing is left behind.
  const std::string& path() const { return memory_->path(); }
  bool is_managed() const { return managed_ != nullptr; }
  // Of a managed table: from now on this device reads and writes it. Throws DeviceError.
  void map_for(int device) { managed_->map_for(device); }
  float* row(std::int64_t id) { return data_ + id * pitch(); }
  float& state(std::int64_t id) { return row(id)[layout_.state_offset()]; }

  // Copies the embedding of a row to `values`, dim floats.
  void read(std::int64_t id, float* values);
  // Sets the embedding of a row; where it is kept in half precision, to the nearest ones.
  void write(std::int64_t id, const float* values);

  // Sets embeddings to uniform numbers in [low, high), as write does, and their state to 0. Element (i, j) depends on
  // seed, stream, i and j alone, so the number of threads does not change it, nor which part of the table a process
  // fills. Throws std::invalid_argument for a part that the table does not have.
  void init_uniform(float low, float high, std::uint64_t seed, std::uint64_t stream, const FilledPart& part = {});
  // As init_uniform, with normal numbers.
  void init_normal(float mean, float deviation, std::uint64_t seed, std::uint64_t stream,
                   const FilledPart& part = {});

 private:
  void map(SharedMapping memory);
  void manage();
  // numbers.fill(values, index, count) sets values[i] to element index + i of the whole table.
  template <class Numbers>
  void init(const Numbers& numbers, const FilledPart& part);

  std::int64_t mapped_bytes() const { return static_cast<std::int64_t>(bytes()) * part_.parts; }

  std::int64_t rows_;
  RowLayout layout_;
  TablePart part_;
  std::shared_ptr<SharedMapping> memory_;  // of all parts; none of a managed table
  std::shared_ptr<ManagedMemory> managed_;
  float* data_;
};

}  // namespace frugal
