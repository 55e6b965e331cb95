#include "memory/host_table.h"

#include <sys/mman.h>

#include <cerrno>
#include <cstring>
#include <stdexcept>
#include <string>

#include "memory/numa.h"
#include "parallel/thread_pool.h"
#include "random/philox.h"

namespace frugal {

HostTable::HostTable(std::int64_t rows, std::int64_t dim, Sharing sharing) : rows_(rows), layout_(RowLayout::for_dim(dim)) {
  if (rows < 1 || dim < 1) throw std::invalid_argument("a table needs at least one row and one column");
  bytes_ = static_cast<std::size_t>(rows) * static_cast<std::size_t>(layout_.bytes());
  const int flags = MAP_ANONYMOUS | MAP_NORESERVE | (sharing == Sharing::kShared ? MAP_SHARED : MAP_PRIVATE);
  void* const address = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, flags, -1, 0);
  if (address == MAP_FAILED)
    throw std::runtime_error("cannot map " + std::to_string(bytes_) + " bytes of host memory for a table of " +
                             std::to_string(rows) + " x " + std::to_string(dim) + ": " + std::strerror(errno));
  madvise(address, bytes_, MADV_HUGEPAGE);  // a wish: fewer page faults and TLB misses where the system grants it
  interleave_pages(address, bytes_);           // another: all devices and flush threads see the same mean bandwidth
  data_ = static_cast<float*>(address);
}

HostTable::~HostTable() { munmap(data_, bytes_); }

void HostTable::init_uniform(float low, float high, std::uint64_t seed, std::uint64_t stream) {
  const CounterUniform uniform(seed, stream);
  default_pool().parallel_for(rows_, 64, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t id = begin; id < end; ++id) {
      float* const values = row(id);
      uniform.fill(values, static_cast<std::uint64_t>(id) * layout_.dim, layout_.dim, low, high);
      state(id) = 0.0f;
    }
  });
}

}  // namespace frugal
