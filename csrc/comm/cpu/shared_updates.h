// Shared rows on a device that the CPU stands for. See comm/shared_rows.h.
#pragma once

#include <vector>

#include "comm/shared_rows.h"

namespace frugal::cpu {

void put_shared(const SharedPart& part, const SharedRows& rows, std::int32_t* to);

void apply_shared(const SharedPart& part, int rank, const std::vector<const std::int32_t*>& of_ranks,
                  const SharedRows& rows, const SharedMemory& memory, float learning_rate);

}  // namespace frugal::cpu
