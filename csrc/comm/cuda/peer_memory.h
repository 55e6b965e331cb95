// A device's own side of an exchange: memory that other processes map and write to, and the addresses of theirs.
#pragma once

#include <string>
#include <vector>

#include "comm/cuda/exchange_kernels.h"
#include "comm/cuda/peer_buffer.h"

namespace frugal::cuda {

// Whether both devices of this process's numbering read each other's memory.
bool reach_each_other(int device, int other);

class PeerMemory {
 public:
  // On the current device. The exchange's segment must be registered with CUDA. Throws DeviceError.
  explicit PeerMemory(HostExchange& exchange);

  // The handle that another process opens; to be given to `connect` there.
  std::string handle() const { return memory_.handle(); }

  // handles: of all ranks, in their order; empty: parts and words go through the segment.
  void connect(const std::vector<std::string>& handles);

  // After connect.
  const DeviceExchange& exchange() const { return device_; }

 private:
  std::size_t bytes() const;
  // Where a rank's part of a region begins in a device's memory of this kind; kWeights has one.
  float* part_in(char* memory, ExchangeRegion region, int rank) const;

  HostExchange& host_;
  PeerBuffer memory_;
  DeviceExchange device_{};
};

}  // namespace frugal::cuda
