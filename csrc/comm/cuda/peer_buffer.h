// Memory of a device that kernels of other processes' devices read and write.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace frugal::cuda {

// Allocated by plain cudaMalloc, because memory of other allocators cannot be mapped by other processes.
class PeerBuffer {
 public:
  // Zeroed, on the current device. what: it is for, as the end of a sentence. Throws DeviceError.
  PeerBuffer(std::size_t bytes, const std::string& what);
  ~PeerBuffer();
  PeerBuffer(const PeerBuffer&) = delete;
  PeerBuffer& operator=(const PeerBuffer&) = delete;

  char* data() const { return data_; }
  // The handle that another process opens.
  std::string handle() const;
  // Another process's, as long as this object lives. Throws DeviceError.
  char* open(const std::string& handle);

 private:
  void release();

  char* data_ = nullptr;
  std::vector<void*> opened_;
};

}  // namespace frugal::cuda
