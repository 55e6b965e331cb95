// The data that a step prefetches from the host while the step before computes: its rows there, and its batch and plan
// as pieces.
#pragma once

#include <span>

#include "rows/cuda/host_pieces.h"
#include "rows/row_program.h"

namespace frugal::cuda {

// The rows of reads that come from the host, as gather with ReadPart::kHost brings them, and up to kMostPieces pieces,
// in one launch. Rows do not wait for pieces: where these bring the plan itself, reads are its arrays where it comes
// from. Throws DeviceError if the launch fails.
void prefetch(const RowMemory& memory, const RowReads& reads, float* records, std::span<const HostPiece> pieces,
              const Launch& launch);

}  // namespace frugal::cuda
