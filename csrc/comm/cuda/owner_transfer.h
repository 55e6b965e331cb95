// Rows that this rank's device owns; the reference, to the bit, is cpu/owner_transfer.h, which says what the calls do.
//
// Other ranks' records and slots are in their devices' memory, which this one addresses (comm/cuda/peer_buffer.h).
// Each call enqueues one kernel, which waits for other devices on its own stream.
#pragma once

#include <span>

#include "comm/owner_transfer.h"
#include "rows/cuda/host_pieces.h"

namespace frugal::cuda {

// number: in device memory, read by the kernel. turn: there, too, zeroed, for the kernel's own use. pieces: see
// prefetch in rows/cuda/prefetch.h; `number` may be part of them.
void prefetch(const OwnerTransferRows& rows, const RowReads& reads, const OwnerTransferRecords& records,
              const std::int64_t* number, unsigned* turn, std::span<const HostPiece> pieces, const Launch& launch);

// number: publication.value; a publication is needed.
void write_back(const OwnerTransferRows& rows, const RowWriteBacks& write_backs, const Publication& publication,
                const Launch& launch);

void write_back_evicted(const OwnerTransferRows& rows, const WriteBack* write_backs, std::int64_t count,
                        std::uint64_t number, const Launch& launch);

}  // namespace frugal::cuda
