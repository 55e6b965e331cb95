// The row kernels of a step on a CUDA device; the reference, to the bit, is cpu/plan_kernels.h.
//
// All pointers must be valid on the device: device memory, or host memory that table/host_registration.h registered.
// Calls only enqueue work on the stream; an error in it surfaces at a later call. No kernel waits for another or for
// the host.
#pragma once

#include <cstdint>

#include "rows/row_program.h"

namespace frugal::cuda {

// The way of a kernel's rows: the bus; the bus to a small table, which processors' caches hold, so that fewer rows
// under way keep it busy; the bus while other ranks wait for the write-back; or nothing, where all of them lie on the
// device.
enum class Crossing : std::uint8_t { kBus, kBusToSmallTable, kBusAwaited, kNone };

struct Launch {
  std::uintptr_t stream = 0;  // a cudaStream_t
  Crossing crossing = Crossing::kBus;
};

// So many blocks at most of so many threads.
struct Blocks {
  int count, threads;
};
// Where the computation waits for the bus; and where it runs at the same time as prefetches and write-backs, which then
// take as few multiprocessors as they can.
// Stores to random rows of a large table wait for the translation of their addresses, on each multiprocessor by itself:
// so their threads are on many of them. Those of reads are on few where rows are short: what is computed at the same
// time on a multiprocessor waits with them.
inline constexpr Blocks kBusBlocks{48, 256}, kPrefetchBlocks{16, 64}, kShortPrefetchBlocks{4, 256};
// Rows leave for a large table by teams each of which waits until what it has stored is there: of long rows (bytes) so
// many bytes at a time that the bus stays busy, of short ones a row, and no more, since what is computed meanwhile
// waits behind them.
inline constexpr Blocks kBoundWriteBackBlocks{32, 64}, kShortWriteBackBlocks{16, 128};
inline constexpr std::int64_t kLongRow = 1024, kBytesAwaited = 3500;
// Of a step with many rows the computation waits for the bus. Few threads store, and each waits for what it has stored:
// requests of reads wait behind the stores that are under way.
inline constexpr std::int64_t kManyRows = 1 << 17;
inline constexpr Blocks kManyPrefetchBlocks{8, 256}, kManyWriteBackBlocks{24, 64};
inline constexpr Blocks kFewPrefetchBlocks{4, 512}, kFewWriteBackBlocks{1, 512};  // of small tables
inline constexpr Blocks kAwaitedBlocks{512, 256};  // as many as there are rows for
inline constexpr Blocks kAllBlocks{4096, 256};

// A counter in mapped host memory that gets *value, which is read on the device, once all rows of a kernel are visible
// to the host. turn: zeroed device memory for the kernel's own use.
struct Publication {
  std::uint64_t* counter = nullptr;
  const std::int64_t* value = nullptr;
  unsigned* turn = nullptr;
};

// All throw DeviceError if the launch fails. See cpu/plan_kernels.h for what they do.
void gather(const RowMemory& memory, const RowReads& reads, float* records, const Launch& launch);
void write_back_rows(const RowMemory& memory, const RowWriteBacks& write_backs, const Launch& launch,
                     const Publication& publication = {});
void stage_evicted(const RowMemory& memory, const RowEvictions& evictions, const std::int64_t* target,
                   std::int64_t count, const Launch& launch);
void write_back_evicted(const RowMemory& memory, const WriteBack* write_backs, std::int64_t count,
                        const Launch& launch);

// out (count, expansion.dim): each id's row of the step.
void expand(const RowExpansion& expansion, float* out, const Launch& launch);

// Stores *value into a counter in mapped host memory once everything before it on the stream is done and visible to
// the host (fence and store at system scope): the engine's flush threads see a finished step without any host call.
// `value` is read on the device, so that a captured graph publishes another one each time.
void publish(std::uint64_t* counter, const std::int64_t* value, const Launch& launch);

}  // namespace frugal::cuda
