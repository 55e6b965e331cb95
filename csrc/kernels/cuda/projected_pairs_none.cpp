#include "device/device_error.h"
#include "kernels/cuda/projected_pairs.h"

namespace frugal::cuda {
namespace {
[[noreturn]] void refuse() { throw DeviceError("no CUDA kernels: nvcc was not found when dglke_frugal was compiled"); }
}  // namespace

void projected_distances(const ProjectedShape&, const float*, const float*, float*, const Launch&) { refuse(); }
void projected_gradients(const ProjectedShape&, const float*, const float*, float*, float*, const Launch&) { refuse(); }

}  // namespace frugal::cuda
