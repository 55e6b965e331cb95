#include "device/device_error.h"
#include "kernels/cuda/plan_kernels.h"

namespace frugal::cuda {
namespace {
[[noreturn]] void refuse() { throw DeviceError("no CUDA kernels: nvcc was not found when dglke_frugal was compiled"); }
}  // namespace

void gather(const RowMemory&, const RowReads&, float*, const Launch&) { refuse(); }
void return_rows(const RowMemory&, const RowReturns&, const Launch&, const Publication&) { refuse(); }
void set_aside(const RowMemory&, const RowEvictions&, const std::int64_t*, std::int64_t, const Launch&) { refuse(); }
void write_back(const RowMemory&, const WriteBack*, std::int64_t, const Launch&) { refuse(); }
void spread(const RowSpread&, float*, const Launch&) { refuse(); }
void publish(std::uint64_t*, const std::int64_t*, const Launch&) { refuse(); }

}  // namespace frugal::cuda
