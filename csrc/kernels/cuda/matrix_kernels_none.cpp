#include "device/device_error.h"
#include "kernels/cuda/matrix_kernels.h"

namespace frugal::cuda {
namespace {
[[noreturn]] void refuse() { throw DeviceError("no CUDA kernels: nvcc was not found when dglke_frugal was compiled"); }
}  // namespace

void matrix_products(const MatrixRows&, bool, const float*, std::int64_t, float*, const Launch&) { refuse(); }
void matrix_squares(const MatrixRows&, const MatrixGradients*, int, const MatrixPenalty&, float*, float*,
                    const Launch&) {
  refuse();
}
void update_matrices(const MatrixRows&, const MatrixGradients*, int, const float*, const MatrixPenalty&, float, float*,
                     const Launch&) {
  refuse();
}

}  // namespace frugal::cuda
