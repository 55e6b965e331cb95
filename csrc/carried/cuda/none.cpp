// What stands for the CUDA sources of this folder in a build without CUDA, where nobody has device memory.
#include "carried/cuda/owner_transfer.h"
#include "device/device_error.h"

namespace frugal::cuda {

void prefetch(const OwnerTransferRows&, const RowReads&, const OwnerTransferRecords&, const std::int64_t*, unsigned*,
              std::span<const HostPiece>, const Launch&) {
  refuse_cuda();
}
void write_back(const OwnerTransferRows&, const RowWriteBacks&, const Publication&, const Launch&) { refuse_cuda(); }
void write_back_evicted(const OwnerTransferRows&, const WriteBack*, std::int64_t, std::uint64_t, const Launch&) {
  refuse_cuda();
}

}  // namespace frugal::cuda
