// Arrays that are read at random: their memory lies in huge pages where the system gives some, since with small ones
// nearly every access would first have to look for its page.
#pragma once

#include <sys/mman.h>

#include <algorithm>
#include <cstddef>
#include <new>
#include <vector>

namespace frugal {

// Arrays smaller than a huge page come from the heap as usual.
template <class T>
struct HugePages {
  using value_type = T;

  HugePages() = default;
  template <class U>
  HugePages(const HugePages<U>&) {}

  T* allocate(std::size_t count) {
    const std::size_t bytes = bytes_for(count);
    void* memory = ::operator new(bytes, alignment(bytes));
    if (bytes >= kPage) madvise(memory, bytes, MADV_HUGEPAGE);  // a wish: without it all is right, and slower
    return static_cast<T*>(memory);
  }
  void deallocate(T* memory, std::size_t count) { ::operator delete(memory, alignment(bytes_for(count))); }

  template <class U>
  bool operator==(const HugePages<U>&) const {
    return true;
  }

 private:
  static constexpr std::size_t kPage = std::size_t{2} << 20, kLine = 64;

  static std::size_t bytes_for(std::size_t count) {
    const std::size_t bytes = count * sizeof(T);
    return bytes < kPage ? bytes : (bytes + kPage - 1) / kPage * kPage;  // whole pages, shared with nothing else
  }
  static std::align_val_t alignment(std::size_t bytes) {
    return std::align_val_t{bytes < kPage ? std::max(alignof(T), kLine) : kPage};
  }
};

template <class T>
using LargeArray = std::vector<T, HugePages<T>>;

}  // namespace frugal
