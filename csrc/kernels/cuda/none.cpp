// What stands for the CUDA sources of this folder in a build without CUDA, where nobody has device memory.
#include "device/device_error.h"
#include "kernels/cuda/prefetch.h"
#include "kernels/cuda/complex_product.h"
#include "kernels/cuda/host_pieces.h"
#include "kernels/cuda/matrix_kernels.h"
#include "kernels/cuda/pair_kernels.h"
#include "kernels/cuda/plan_kernels.h"
#include "kernels/cuda/projected_pairs.h"
#include "kernels/cuda/row_updates.h"
#include "kernels/cuda/segment_sums.h"
#include "kernels/cuda/summed_update.h"

namespace frugal::cuda {

void gather(const RowMemory&, const RowReads&, float*, const Launch&) { refuse_cuda(); }
void write_back_rows(const RowMemory&, const RowWriteBacks&, const Launch&, const Publication&) { refuse_cuda(); }
void stage_evicted(const RowMemory&, const RowEvictions&, const std::int64_t*, std::int64_t, const Launch&) {
  refuse_cuda();
}
void write_back_evicted(const RowMemory&, const WriteBack*, std::int64_t, const Launch&) { refuse_cuda(); }
void expand(const RowExpansion&, float*, const Launch&) { refuse_cuda(); }
void publish(std::uint64_t*, const std::int64_t*, const Launch&) { refuse_cuda(); }

void prefetch(const RowMemory&, const RowReads&, float*, std::span<const HostPiece>, const Launch&) { refuse_cuda(); }

void fetch(std::span<const HostPiece>, const Launch&) { refuse_cuda(); }

void update(std::span<const TableUpdate>, float, const Launch&) { refuse_cuda(); }
void mean_squares(const float*, std::int64_t, std::int64_t, std::int64_t, float*, const Launch&) { refuse_cuda(); }

void segment_sums(const EntryGradients&, std::int64_t, std::int64_t, float*, const Launch&, bool) { refuse_cuda(); }

void update_from_sums(const RowMemory&, const RowWrites&, const float*, const float*, const UpdateRule&,
                      const Launch&) {
  refuse_cuda();
}

void pair_distances(PairKind, const PairShape&, const float*, const float*, float*, const Launch&) { refuse_cuda(); }
void pair_gradients(PairKind, const PairShape&, const float*, const float*, const PairWeights&, float*, const Launch&) {
  refuse_cuda();
}

void project(const ProjectedPairs&, const float*, const float*, float*, float*, const Launch&) { refuse_cuda(); }
void project_back(const ProjectedPairs&, const float*, const float*, const float*, std::int32_t*, float*,
                  const Launch&) {
  refuse_cuda();
}
void differentiate_matrices(const ProjectedPairs&, const float*, const float*, const float*, const float*, float*,
                            float*, const Launch&) {
  refuse_cuda();
}

void matrix_products(const MatrixRows&, bool, const float*, std::int64_t, float*, const Launch&) { refuse_cuda(); }
void matrix_squares(const MatrixRows&, const MatrixGradients*, int, const MatrixPenalty&, float*, float*,
                    const Launch&) {
  refuse_cuda();
}
void update_matrices(const MatrixRows&, const MatrixGradients*, int, const float*, const MatrixPenalty&, float, float*,
                     const Launch&) {
  refuse_cuda();
}

void multiply_complex(const ComplexProduct&, const Launch&) { refuse_cuda(); }

}  // namespace frugal::cuda
