// The penalty of a batch's rows on the CPU. See full_softmax/penalty.h.
#pragma once

#include "full_softmax/penalty.h"

namespace frugal::cpu {

void penalize_rows(const RowPenalty& penalty);

}  // namespace frugal::cpu
