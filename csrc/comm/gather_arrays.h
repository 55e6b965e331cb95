// Arrays of which each rank has a row, and all ranks want all rows: an all-gather, by two collectives of an exchange.
//
// The first one says that all have read what was published before, so that one region serves every step; then each
// publishes its rows, one behind the other; after the second one each takes those of the others. cuda/gather_arrays.h
// does the same on devices.
#pragma once

#include <cstdint>
#include <span>

#include "comm/host_exchange.h"

namespace frugal {

// (ranks, floats), row after row.
struct GatheredArray {
  float* rows;
  std::int64_t floats;

  float* row(int rank) const { return rows + rank * floats; }
  // Its bytes of a rank's part.
  std::int64_t room() const { return (floats + 3) / 4 * 4; }
};

// Room for a rank's rows of these arrays; throws std::invalid_argument if an exchange has less for raw scores.
void check_room(const HostExchange& exchange, std::span<const GatheredArray> arrays);

// Each rank's own row of each array is there; gets all others'. False if somebody has failed: others' rows are then
// what this rank published itself, so that numbers of rows among them still are such. (On a device, what was published
// last.)
bool gather_arrays(HostExchange& exchange, std::span<const GatheredArray> arrays);

}  // namespace frugal
