// A device's own side of an exchange: memory that other processes map and write to, and the addresses of theirs.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "exchange/cuda/exchange_kernels.h"

namespace frugal::cuda {

// Whether both devices of this process's numbering read each other's memory.
bool reach_each_other(int device, int other);

// Allocated by plain cudaMalloc, because memory of other allocators cannot be mapped by other processes.
class PeerMemory {
 public:
  // On the current device. The exchange's segment must be registered with CUDA. Throws DeviceError.
  explicit PeerMemory(HostExchange& exchange);
  ~PeerMemory();
  PeerMemory(const PeerMemory&) = delete;
  PeerMemory& operator=(const PeerMemory&) = delete;

  // What another process opens; to be given to `connect` there.
  std::string handle() const;

  // handles: of all ranks, in their order; empty: parts and words go through the segment.
  void connect(const std::vector<std::string>& handles);

  // After connect.
  const DeviceExchange& exchange() const { return device_; }

 private:
  void release();
  std::size_t bytes() const;
  // Where a rank's part of a region begins in a device's memory of this kind; kWeights has one.
  float* part_in(char* memory, ExchangeRegion region, int rank) const;

  HostExchange& host_;
  char* memory_ = nullptr;
  std::vector<void*> opened_;
  DeviceExchange device_{};
};

}  // namespace frugal::cuda
