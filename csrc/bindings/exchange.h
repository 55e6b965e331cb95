// The exchange of a rank with the others inside a step, as Python has it: on the CPU, or with a device's memory
// besides.
#pragma once

#include <memory>
#include <stdexcept>

#include "comm/cuda/peer_memory.h"
#include "step/gradients.h"

namespace frugal {

class Exchange final : public ColumnRanks {
 public:
  Exchange(std::byte* segment, std::size_t bytes, int rank, int ranks, const ExchangeFloats& floats)
      : host_(segment, bytes, rank, ranks, floats) {}

  HostExchange& host() { return host_; }
  cuda::PeerMemory& peer_memory() {
    if (!device_) device_ = std::make_unique<cuda::PeerMemory>(host_);
    return *device_;
  }
  const cuda::DeviceExchange& device() {
    if (!device_) throw std::logic_error("the exchange is not connected");
    return device_->exchange();
  }

  // On the CPU.
  Share share(std::int64_t positives) const override { return share_of(positives, host_.rank(), host_.ranks()); }
  void reduce_scatter(float* values, std::int64_t positives, std::int64_t width, std::int64_t common) override {
    host_.reduce_scatter(values, positives, width, common);
  }
  void all_gather(float* records, std::int64_t positives, std::int64_t width) override {
    host_.all_gather(records, positives, width);
  }

 private:
  HostExchange host_;
  std::unique_ptr<cuda::PeerMemory> device_;
};

}  // namespace frugal
