// Tables that several machines train, each a worker with rows of its own: what travels between two steps, and when.
//
// Batches are a function of (seed, step, worker), so that every machine knows of the coming steps which rows each
// machine uses. Nobody asks for rows, and both ends of a block know what is in it: only numbers travel.
//
// The boundary of step s lies between steps s - 1 and s. Four blocks belong to it, in this order; each goes from every
// machine to every other one, and may be empty:
//
//   kUrgent  what other machines need to begin step s, or to send what step s + 1 needs: the results of step s - 1 of
//            rows that are used again so soon; and values of rows that their owner alone has changed in step s - 1.
//   kLate    values for step s of rows that others than their owner have changed in step s - 1.
//   kRest    the other results of step s - 1.
//   kAhead   values for step s + 1 of rows that nobody uses in step s.
//   kWhole   only where the tables are to be read as a whole: what a replica lacks.
//
// Step s begins when kUrgent and kLate have landed; kRest and kAhead travel while it computes, and have landed before
// the next boundary's kUrgent is made. So a row's value is final whenever it is sent, and most rows travel during a
// step.
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
