// The exchange of a rank that owns columns, as Python holds it: on the CPU, or with a device's memory besides.
#pragma once

#include <algorithm>
#include <memory>
#include <stdexcept>

#include "exchange/cuda/peer_memory.h"

namespace frugal {

class ColumnExchange {
 public:
  ColumnExchange(std::byte* segment, std::size_t bytes, int rank, int ranks, std::int64_t scores, std::int64_t squares)
      : host_(segment, bytes, rank, ranks, scores, squares) {}

  HostExchange& host() { return host_; }
  cuda::PeerMemory& peer_memory() {
    if (!device_) device_ = std::make_unique<cuda::PeerMemory>(host_);
    return *device_;
  }
  const cuda::DeviceExchange& device() {
    if (!device_) throw std::logic_error("the exchange is not connected");
    return device_->exchange();
  }
  // On the CPU: replaces values by the sums over ranks.
  void add_columns(float* values, std::int64_t count) { sum(0, values, count, 1.0f); }
  void sum(int region, float* values, std::int64_t count, float divisor) {
    if (count > host_.floats(region)) throw std::invalid_argument("the exchange has too little room");
    std::copy_n(values, count, host_.part(region));
    host_.sum(region, count, divisor, values);
  }

 private:
  HostExchange host_;
  std::unique_ptr<cuda::PeerMemory> device_;
};

}  // namespace frugal
