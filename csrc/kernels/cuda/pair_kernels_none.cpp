#include "device/device_error.h"
#include "kernels/cuda/pair_kernels.h"

namespace frugal::cuda {
namespace {
[[noreturn]] void refuse() { throw DeviceError("no CUDA kernels: nvcc was not found when dglke_frugal was compiled"); }
}  // namespace

void pair_distances(PairKind, const PairShape&, const float*, const float*, float*, const Launch&) { refuse(); }
void pair_gradients(PairKind, const PairShape&, const float*, const float*, const PairWeights&, float*, const Launch&) {
  refuse();
}

}  // namespace frugal::cuda
