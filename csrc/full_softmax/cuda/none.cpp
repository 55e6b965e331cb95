// What stands for the CUDA sources of this folder in a build without CUDA, where nobody has device memory.
#include "device/device_error.h"
#include "full_softmax/cuda/penalty.h"
#include "full_softmax/cuda/round_matrix.h"
#include "full_softmax/cuda/tile_kernels.h"

namespace frugal::cuda {

void penalize_rows(const RowPenalty&, std::uintptr_t) { refuse_cuda(); }

void round_matrix(const MatrixRounding&, std::uintptr_t) { refuse_cuda(); }

void add_tile(const ScoreTile&, const SoftmaxTargets&, const SoftmaxSums&, std::uintptr_t) { refuse_cuda(); }
void tile_slopes(const ScoreTile&, const SoftmaxTargets&, const float*, const float*, const SlopeForm&,
                 std::uintptr_t) {
  refuse_cuda();
}
void update_tile(const TableRows&, std::int64_t, std::int64_t, const float*, std::int64_t, const std::int32_t*, float*,
                 const UpdateRule&, std::uintptr_t) {
  refuse_cuda();
}
void update_rows(const TableRows&, const std::int64_t*, const std::int32_t*, std::int64_t, const float*,
                 const UpdateRule&, std::uintptr_t) {
  refuse_cuda();
}
void drop(const Dropout&, std::int64_t, std::int64_t, std::int64_t, float*, std::uintptr_t) { refuse_cuda(); }

}  // namespace frugal::cuda
