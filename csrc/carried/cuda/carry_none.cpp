#include "carried/cuda/carry.h"
#include "device/device_error.h"

namespace frugal::cuda {

namespace {
[[noreturn]] void refuse() { throw DeviceError("this build has no CUDA kernels"); }
}  // namespace

void arrive(const CarriedRows&, const RowReads&, const CarriedRecords&, const std::int64_t*, unsigned*,
            std::span<const HostPiece>, const Launch&) {
  refuse();
}
void depart(const CarriedRows&, const RowReturns&, const Publication&, const Launch&) { refuse(); }
void write_back(const CarriedRows&, const WriteBack*, std::int64_t, std::uint64_t, const Launch&) { refuse(); }

}  // namespace frugal::cuda
