// Rows that this rank owns, on the CPU: the reference for cuda/owner_transfer.h. See owner_transfer.h for who waits for
// whom.
#pragma once

#include "comm/owner_transfer.h"

namespace frugal::cpu {

// P(k): records of rows that come from the host, of all ranks, in floats. number: k + 1.
void prefetch(const OwnerTransferRows& rows, const RowReads& reads, const OwnerTransferRecords& records,
              std::uint64_t number);

// W(k): rows that leave as write_backs.wanted, from the slots of all ranks to their host rows. number: k + 1.
void write_back(const OwnerTransferRows& rows, const RowWriteBacks& write_backs, std::uint64_t number);

// Evicted rows, ahead of step k, to their host rows. number: k.
void write_back_evicted(const OwnerTransferRows& rows, const WriteBack* write_backs, std::int64_t count,
                        std::uint64_t number);

}  // namespace frugal::cpu
