// An array of plain values that grows without holding two copies of itself: the C library moves the pages of a large
// block instead of copying them, and pages not written yet take no memory.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <new>
#include <type_traits>
#include <utility>

namespace frugal {

template <class T>
class GrowingArray {
  static_assert(std::is_trivially_copyable_v<T>);

 public:
  GrowingArray() = default;
  GrowingArray(GrowingArray&& other) noexcept { swap(other); }
  GrowingArray& operator=(GrowingArray&& other) noexcept {
    GrowingArray(std::move(other)).swap(*this);
    return *this;
  }
  ~GrowingArray() { std::free(data_); }

  const T* data() const { return data_; }
  std::size_t size() const { return size_; }
  const T& operator[](std::size_t i) const { return data_[i]; }

  // Throws std::bad_alloc and changes nothing if there is no memory.
  void append(const T* values, std::size_t count) {
    if (count == 0) return;
    if (size_ + count > capacity_) reserve(std::max(2 * capacity_, size_ + count));
    std::memcpy(data_ + size_, values, count * sizeof(T));
    size_ += count;
  }

  // The values, to be freed with std::free; null if there are none. The array is empty afterwards.
  T* release() {
    if (size_ > 0) reserve(size_);
    size_ = capacity_ = 0;
    return std::exchange(data_, nullptr);
  }

 private:
  void reserve(std::size_t capacity) {
    T* moved = static_cast<T*>(std::realloc(data_, capacity * sizeof(T)));
    if (!moved) throw std::bad_alloc();
    data_ = moved;
    capacity_ = capacity;
  }
  void swap(GrowingArray& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
    std::swap(capacity_, other.capacity_);
  }

  T* data_ = nullptr;
  std::size_t size_ = 0, capacity_ = 0;
};

}  // namespace frugal
