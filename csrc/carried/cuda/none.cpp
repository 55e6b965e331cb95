// What stands for the CUDA sources of this folder in a build without CUDA, where nobody has device memory.
#include "carried/cuda/carry.h"
#include "device/device_error.h"

namespace frugal::cuda {

void prefetch(const CarriedRows&, const RowReads&, const CarriedRecords&, const std::int64_t*, unsigned*,
            std::span<const HostPiece>, const Launch&) {
  refuse_cuda();
}
void write_back(const CarriedRows&, const RowWriteBacks&, const Publication&, const Launch&) { refuse_cuda(); }
void write_back_evicted(const CarriedRows&, const WriteBack*, std::int64_t, std::uint64_t, const Launch&) { refuse_cuda(); }

}  // namespace frugal::cuda
