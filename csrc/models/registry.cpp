#include "models/registry.h"

#include <stdexcept>

namespace frugal {

void require(bool condition, const ModelSpec& spec, const std::string& complaint) {
  if (!condition)
    throw std::invalid_argument(spec.name + " " + complaint + "; got entity rows of " + std::to_string(spec.entity_dim) +
                                " and relation rows of " + std::to_string(spec.relation_dim) + " floats");
}

std::unique_ptr<Model> make_model(const ModelSpec& spec) {
  require(spec.entity_dim > 0 && spec.relation_dim > 0, spec, "needs rows of at least one float");
  if (spec.name == "TransE_l1") return make_transe_l1(spec);
  if (spec.name == "TransE_l2" || spec.name == "TransE") return make_transe_l2(spec);
  if (spec.name == "DistMult") return make_distmult(spec);
  if (spec.name == "ComplEx") return make_complex(spec);
  if (spec.name == "RotatE") return make_rotate(spec);
  if (spec.name == "SimplE") return make_simple(spec);
  if (spec.name == "RESCAL") return make_rescal(spec);
  if (spec.name == "TransR") return make_transr(spec);
  throw std::invalid_argument("no model is called '" + spec.name + "'");
}

}  // namespace frugal
