#include "device/device_error.h"
#include "kernels/cuda/row_updates.h"

namespace frugal::cuda {
namespace {
[[noreturn]] void refuse() { throw DeviceError("no CUDA kernels: nvcc was not found when dglke_frugal was compiled"); }
}  // namespace

void update(std::span<const TableUpdate>, float, const Launch&) { refuse(); }
void mean_squares(const float*, std::int64_t, std::int64_t, std::int64_t, float*, const Launch&) { refuse(); }

}  // namespace frugal::cuda
