#include "device/device_error.h"
#include "kernels/cuda/projected_pairs.h"

namespace frugal::cuda {
namespace {
[[noreturn]] void refuse() { throw DeviceError("no CUDA kernels: nvcc was not found when dglke_frugal was compiled"); }
}  // namespace

void project(const ProjectedPairs&, const float*, const float*, float*, float*, const Launch&) { refuse(); }
void project_back(const ProjectedPairs&, const float*, const float*, const float*, std::int32_t*, float*,
                  const Launch&) {
  refuse();
}
void differentiate_matrices(const ProjectedPairs&, const float*, const float*, const float*, const float*, float*,
                            float*, const Launch&) {
  refuse();
}

}  // namespace frugal::cuda
