// Host memory that CUDA devices read and write in place (UVA, zero copy).
//
// Registration belongs to a process: each one that shares a mapping registers the same pages for itself, for all
// devices at once. It is done in chunks, because one call for a hundred gigabytes holds the driver for minutes and
// fails as a whole. Kernels may run over the joints of chunks; cudaMemcpy may not, so copies use buffers of their own.
#pragma once

#include <algorithm>
#include <cstddef>
#include <string>

namespace frugal {

inline constexpr std::size_t kRegistrationChunk = std::size_t{1} << 30;

// Owns the registration, not the memory, which must outlive it.
class HostRegistration {
 public:
  // All of [address, address + bytes), or nothing and a DeviceError that names the limit that was in the way.
  // address: on a page. bytes >= 1.
  HostRegistration(void* address, std::size_t bytes);
  ~HostRegistration();
  HostRegistration(const HostRegistration&) = delete;
  HostRegistration& operator=(const HostRegistration&) = delete;

  std::size_t bytes() const { return bytes_; }

 private:
  char* address_;
  std::size_t bytes_;
};

// Calls add(offset, size) for pieces of at most `chunk` bytes that cover [0, bytes). If one throws, calls
// remove(offset) for those already added, latest first, and rethrows.
template <class Add, class Remove>
void all_or_nothing(std::size_t bytes, std::size_t chunk, Add add, Remove remove) {
  std::size_t done = 0;
  try {
    for (; done < bytes; done += chunk) add(done, std::min(chunk, bytes - done));
  } catch (...) {
    while (done > 0) remove(done -= chunk);
    throw;
  }
}

// "the memlock limit of this process is 8192 KiB (ulimit -l)", or that there is none.
std::string memlock_limit_sentence();

}  // namespace frugal
