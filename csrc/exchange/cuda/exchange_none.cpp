#include "device/device_error.h"
#include "exchange/cuda/gather_arrays.h"
#include "exchange/cuda/peer_memory.h"

namespace frugal::cuda {

bool reach_each_other(int, int) { return false; }

void meet(const DeviceExchange&, std::uintptr_t) { throw DeviceError("this build has no CUDA kernels"); }

void average(const DeviceExchange&, std::int64_t, float*, std::uintptr_t) {
  throw DeviceError("this build has no CUDA kernels");
}

void put_arrays(const DeviceExchange&, std::span<const GatheredArray>, std::uintptr_t) {
  throw DeviceError("this build has no CUDA kernels");
}

void take_arrays(const DeviceExchange&, std::span<const GatheredArray>, std::uintptr_t) {
  throw DeviceError("this build has no CUDA kernels");
}

PeerBuffer::PeerBuffer(std::size_t, const std::string&) { throw DeviceError("this build has no CUDA kernels"); }
PeerBuffer::~PeerBuffer() = default;
std::string PeerBuffer::handle() const { return {}; }
char* PeerBuffer::open(const std::string&) { return nullptr; }

PeerMemory::PeerMemory(HostExchange& exchange) : host_(exchange), memory_(0, "") {}
void PeerMemory::connect(const std::vector<std::string>&) {}

}  // namespace frugal::cuda
