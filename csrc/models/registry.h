// The models by name, and the checks they share.
#pragma once

#include <memory>
#include <string>

#include "models/model.h"

namespace frugal {

std::unique_ptr<Model> make_transe_l1(const ModelSpec& spec);
std::unique_ptr<Model> make_transe_l2(const ModelSpec& spec);
std::unique_ptr<Model> make_distmult(const ModelSpec& spec);
std::unique_ptr<Model> make_complex(const ModelSpec& spec);
std::unique_ptr<Model> make_rotate(const ModelSpec& spec);
std::unique_ptr<Model> make_simple(const ModelSpec& spec);
std::unique_ptr<Model> make_rescal(const ModelSpec& spec);
std::unique_ptr<Model> make_transr(const ModelSpec& spec);

// Throws std::invalid_argument, naming the model and its dimensions, unless `condition` holds.
void require(bool condition, const ModelSpec& spec, const std::string& complaint);
inline void require_equal_dims(const ModelSpec& spec) {
  require(spec.entity_dim == spec.relation_dim, spec, "needs entity and relation rows of the same length");
}
inline void require_even(std::int64_t dim, const ModelSpec& spec) {
  require(dim % 2 == 0, spec, "needs rows of even length, because they are two halves");
}

}  // namespace frugal
