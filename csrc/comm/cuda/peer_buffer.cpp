#include "comm/cuda/peer_buffer.h"

#include <cstring>
#include <stdexcept>

#include "base/device/cuda_check.h"

namespace frugal::cuda {

PeerBuffer::PeerBuffer(std::size_t bytes, const std::string& what) {
  cuda_check(cudaMalloc(reinterpret_cast<void**>(&data_), bytes), "cudaMalloc",
             std::to_string(bytes) + " bytes for " + what);
  try {
    cuda_check(cudaMemset(data_, 0, bytes), "cudaMemset");
    cuda_check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
  } catch (...) {
    release();
    throw;
  }
}

PeerBuffer::~PeerBuffer() { release(); }

void PeerBuffer::release() {
  for (void* each : opened_) cudaIpcCloseMemHandle(each);
  opened_.clear();
  cudaFree(data_);
  cudaGetLastError();  // at exit the driver may be gone already
  data_ = nullptr;
}

std::string PeerBuffer::handle() const {
  cudaIpcMemHandle_t handle;
  cuda_check(cudaIpcGetMemHandle(&handle, data_), "cudaIpcGetMemHandle", "--peer off does without");
  return {reinterpret_cast<const char*>(&handle), sizeof handle};
}

char* PeerBuffer::open(const std::string& given) {
  cudaIpcMemHandle_t handle;
  if (given.size() != sizeof handle) throw std::invalid_argument("this is no handle of a rank's memory");
  std::memcpy(&handle, given.data(), sizeof handle);
  void* opened = nullptr;
  cuda_check(cudaIpcOpenMemHandle(&opened, handle, cudaIpcMemLazyEnablePeerAccess), "cudaIpcOpenMemHandle",
             "--peer off does without");
  opened_.push_back(opened);
  return static_cast<char*>(opened);
}

}  // namespace frugal::cuda
