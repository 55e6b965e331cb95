// A column of ids that someone else owns: int32 or int64, contiguous or with a stride (a column of a table of triples,
// whose three ids then share a cache line), in memory or mapped from a file.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace frugal {

class IdArray {
 public:
  IdArray() = default;

  // stride in elements. The memory must outlive every copy of the view.
  IdArray(const std::int32_t* data, std::int64_t size, std::int64_t stride = 1) : IdArray(data, size, stride, false) {}
  IdArray(const std::int64_t* data, std::int64_t size, std::int64_t stride = 1) : IdArray(data, size, stride, true) {}

  std::int64_t size() const { return size_; }
  bool empty() const { return size_ == 0; }

  std::int64_t operator[](std::int64_t i) const {
    if (wide_) {
      std::int64_t id;
      std::memcpy(&id, data_ + i * stride_, sizeof id);
      return id;
    }
    std::int32_t id;
    std::memcpy(&id, data_ + i * stride_, sizeof id);
    return id;
  }

  void prefetch(std::int64_t i) const { __builtin_prefetch(data_ + i * stride_, 0, 2); }

 private:
  IdArray(const void* data, std::int64_t size, std::int64_t stride, bool wide)
      : data_(static_cast<const std::byte*>(data)), size_(size), stride_(stride * (wide ? 8 : 4)), wide_(wide) {}

  const std::byte* data_ = nullptr;
  std::int64_t size_ = 0, stride_ = 0;  // stride_ in bytes
  bool wide_ = false;
};

}  // namespace frugal
