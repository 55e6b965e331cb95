#include "device/device_error.h"
#include "step/cuda/given_scores.h"

namespace frugal::cuda {
namespace {
[[noreturn]] void refuse() { throw DeviceError("no CUDA kernels: nvcc was not found when dglke_frugal was compiled"); }
}  // namespace

void lose_scores(const LossSpec&, const GivenScores&, const Launch&) { refuse(); }
void penalize(const LossSpec&, std::span<const PenalizedRows>, const Launch&) { refuse(); }
void add_losses(const LossSpec&, std::span<const float>, std::span<const float>, double*, const Launch&) { refuse(); }

}  // namespace frugal::cuda
