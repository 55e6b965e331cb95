// Scratch matrices that are made once and used in every step.
#pragma once

#include <sys/mman.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <new>
#include <utility>

namespace frugal {

// Floats between two rows of at least `columns` floats: whole cache lines, an odd number of them, so that walking down
// a column visits every set of a cache, and at least one whole vector of zeros or dead space behind the last column.
inline constexpr std::int64_t padded_stride(std::int64_t columns) {
  const std::int64_t lines = (columns + 15) / 16;
  return (lines % 2 ? lines : lines + 1) * 16;
}

// Zeroed floats, on huge pages where the system gives them. Grows, never shrinks; growing loses the content.
class Buffer {
 public:
  Buffer() = default;
  Buffer(Buffer&& other) noexcept : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}
  Buffer& operator=(Buffer&&) = delete;
  ~Buffer() { std::free(data_); }

  // Throws std::bad_alloc.
  void reserve(std::int64_t floats) {
    if (floats <= size_) return;
    constexpr std::size_t kPage = std::size_t{1} << 21;
    const std::size_t bytes = static_cast<std::size_t>(floats) * sizeof(float);
    const std::size_t alignment = bytes <= kPage / 2 ? 64 : kPage;  // what fills most of a page is worth one
    const std::size_t whole = (bytes + alignment - 1) / alignment * alignment;
    std::free(std::exchange(data_, nullptr));
    size_ = 0;
    data_ = static_cast<float*>(std::aligned_alloc(alignment, whole));
    if (!data_) throw std::bad_alloc();
    if (alignment == kPage) madvise(data_, whole, MADV_HUGEPAGE);  // a hint: an error changes nothing but time
    std::memset(data_, 0, whole);
    size_ = floats;
  }
  float* data() { return data_; }
  const float* data() const { return data_; }

 private:
  float* data_ = nullptr;
  std::int64_t size_ = 0;
};

}  // namespace frugal
