// Checks of dimensions that models share.
#pragma once

#include <string>

#include "models/model.h"

namespace frugal {

// Throws std::invalid_argument, naming the model and its dimensions, unless `condition` holds.
void require(bool condition, const ModelSpec& spec, const std::string& complaint);
inline void require_equal_dims(const ModelSpec& spec) {
  require(spec.entity_dim == spec.relation_dim, spec, "needs entity and relation rows of the same length");
}
inline void require_even(const ModelSpec& spec) {
  require(spec.entity_dim % 2 == 0, spec, "needs entity rows of even length, because they are two halves");
}

}  // namespace frugal
