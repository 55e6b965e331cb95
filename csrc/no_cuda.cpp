// Replaces the CUDA sources of all folders in a build without CUDA, where nobody has device memory.
#include "base/device/device_error.h"
#include "comm/cuda/owner_transfer.h"
#include "comm/cuda/peer_memory.h"
#include "comm/cuda/replica_updates.h"
#include "comm/cuda/row_exchange.h"
#include "comm/cuda/shared_updates.h"
#include "full_softmax/cuda/penalty.h"
#include "full_softmax/cuda/round_matrix.h"
#include "full_softmax/cuda/tile_kernels.h"
#include "models/cuda/complex_product.h"
#include "models/cuda/matrix_kernels.h"
#include "models/cuda/pair_kernels.h"
#include "models/cuda/projected_pairs.h"
#include "rows/cuda/host_pieces.h"
#include "rows/cuda/plan_kernels.h"
#include "rows/cuda/prefetch.h"
#include "rows/cuda/row_updates.h"
#include "rows/cuda/segment_sums.h"
#include "rows/cuda/summed_update.h"
#include "step/cuda/gradient_kernels.h"
#include "step/cuda/loss_from_scores.h"
#include "store/cuda/sort_ids.h"

namespace frugal::cuda {

void prefetch(const OwnerTransferRows&, const RowReads&, const OwnerTransferRecords&, const std::int64_t*, unsigned*,
              std::span<const HostPiece>, const Launch&) {
  refuse_cuda();
}
void write_back(const OwnerTransferRows&, const RowWriteBacks&, const Publication&, const Launch&) { refuse_cuda(); }
void write_back_evicted(const OwnerTransferRows&, const WriteBack*, std::int64_t, std::uint64_t, const Launch&) {
  refuse_cuda();
}

bool reach_each_other(int, int) { return false; }

void barrier(const DeviceExchange&, std::uintptr_t) { refuse_cuda(); }

void all_reduce_mean(const DeviceExchange&, std::int64_t, float*, std::uintptr_t) { refuse_cuda(); }

void send_values(const RowExchange&, const OwnedRows&, const float*, std::uint64_t, unsigned*, std::uintptr_t) {
  refuse_cuda();
}
void fetch_sums(const RowExchange&, const OwnedRows&, float*, std::uint64_t, std::uintptr_t) { refuse_cuda(); }

PeerBuffer::PeerBuffer(std::size_t, const std::string&) { refuse_cuda(); }
PeerBuffer::~PeerBuffer() = default;
std::string PeerBuffer::handle() const { return {}; }
char* PeerBuffer::open(const std::string&) { return nullptr; }

PeerMemory::PeerMemory(HostExchange& exchange) : host_(exchange), memory_(0, "") {}
void PeerMemory::connect(const std::vector<std::string>&) {}

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

void send_sums(const DeviceExchange&, const ReplicaPart&, const ReplicaRows&, std::uintptr_t) { refuse_cuda(); }

void apply_sums(const DeviceExchange&, const ReplicaPart&, float*, std::int64_t, float, std::uintptr_t) {
  refuse_cuda();
}

void put_shared(const DeviceExchange&, const SharedPart&, const SharedRows&, std::uintptr_t) { refuse_cuda(); }

void apply_shared(const DeviceExchange&, const SharedPart&, const SharedRows&, const SharedMemory&, float,
                  std::uintptr_t) {
  refuse_cuda();
}

std::int64_t workspace_floats(const ModelSpec&, bool, std::int64_t, std::int64_t, std::int64_t) { return 0; }

void compute_gradients(const ModelSpec&, const LossSpec&, bool, const DeviceBatch&, DeviceRows, DeviceRows,
                       const RecordReads&, const RecordReads&, const DeviceGradients&, Products,
                       const DeviceExchange*, std::uintptr_t) {
  refuse_cuda();
}

void loss_from_scores(const LossSpec&, const ScoredPositives&, const Launch&) { refuse_cuda(); }
void penalize(const LossSpec&, std::span<const PenalizedRows>, const Launch&) { refuse_cuda(); }
void add_losses(const LossSpec&, std::span<const float>, std::span<const float>, double*, const Launch&) {
  refuse_cuda();
}

std::size_t sort_bytes(std::int64_t) { refuse_cuda(); }
void sort_ids(const std::int64_t*, std::int64_t, const OwnerOrder&, std::byte*, std::size_t, const SortedIds&,
              std::uintptr_t) {
  refuse_cuda();
}

}  // namespace frugal::cuda
