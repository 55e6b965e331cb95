// In builds without CUDA nobody has device memory to call these with.
#include "device/device_error.h"
#include "full_softmax/cuda/tile_kernels.h"

namespace frugal::cuda {
namespace {
[[noreturn]] void refuse() { throw DeviceError("this build has no CUDA kernels; install one that has"); }
}  // namespace

void add_tile(const ScoreTile&, const SoftmaxTargets&, const SoftmaxSums&, std::uintptr_t) { refuse(); }
void tile_slopes(const ScoreTile&, const SoftmaxTargets&, const float*, const float*, const SlopeForm&,
                 std::uintptr_t) {
  refuse();
}
void update_tile(const TableRows&, std::int64_t, std::int64_t, const float*, std::int64_t, const std::int32_t*, float*,
                 const UpdateRule&, std::uintptr_t) {
  refuse();
}
void update_rows(const TableRows&, const std::int64_t*, const std::int32_t*, std::int64_t, const float*,
                 const UpdateRule&, std::uintptr_t) {
  refuse();
}
void drop(const Dropout&, std::int64_t, std::int64_t, std::int64_t, float*, std::uintptr_t) { refuse(); }

}  // namespace frugal::cuda
