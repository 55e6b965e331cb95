// Tables that several machines train, each a worker with rows of its own: what travels between two steps, and when.
//
// Batches are a function of (seed, step, worker), so that every machine knows of the coming steps which rows each
// machine uses. Nobody asks for rows, and both ends of a block know what is in it: only numbers travel.
//
// The boundary of step s lies between steps s - 1 and s. Five blocks belong to it, in this order; each goes from every
// machine to every other one, and may be empty:
//
//   kUrgent  the results of step s - 1 of rows that the receiver uses in step s. If several machines have used the row,
//            each of them sends its gradients to each machine that needs the row, and all apply them alike.
//   kLate    values for step s of rows that more than two machines have used in step s - 1: those went by the owner.
//   kRest    the other results of step s - 1, for the owners.
//   kAhead   values for step s + 1 of rows that nobody uses in step s.
//   kWhole   only where the tables are to be read as a whole: what a replica lacks.
//
// kUrgent leaves within step s - 1, as soon as its rows are written. Step s begins when kUrgent and kLate have landed.
// kRest and then kAhead travel while it computes: they read and write no row that this machine uses in step s, and have
// landed before kUrgent of the next boundary lands. So a row's value is final whenever it is sent. All land on a thread
// of their own, kUrgent while the other rows of step s - 1 are written, which it does not touch.
#pragma once

#include <cstdint>
#include <span>

namespace frugal {

inline constexpr int kMostMachines = 64;  // users of a row are bits of a word
inline constexpr int kMostMachineEntries = 2;

enum class MachineBlock : std::uint8_t { kUrgent, kLate, kRest, kAhead, kWhole };

// What one machine uses in a step: rows (U,), ascending; and for each entry, for each row, how many gradients it will
// have there, (entries * U,).
struct MachineUse {
  std::span<const std::int64_t> rows;
  std::span<const std::int32_t> occurrences;
};

}  // namespace frugal
