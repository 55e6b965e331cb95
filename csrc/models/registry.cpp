#include <stdexcept>

#include "models/checks.h"
#include "models/complex.h"
#include "models/distmult.h"
#include "models/large_models.h"
#include "models/rotate.h"
#include "models/simple.h"
#include "models/transe.h"

namespace frugal {

void require(bool condition, const ModelSpec& spec, const std::string& complaint) {
  if (!condition)
    throw std::invalid_argument(spec.name + " " + complaint + "; got entity rows of " +
                                std::to_string(spec.entity_dim) + " and relation rows of " +
                                std::to_string(spec.relation_dim) + " floats");
}

std::unique_ptr<Model> make_model(const ModelSpec& spec) {
  using namespace FRUGAL_ISA;
  require(spec.entity_dim > 0 && spec.relation_dim > 0, spec, "needs rows of at least one float");
  if (spec.name == "TransE_l1") return std::make_unique<RowModel<TransEL1>>(spec);
  if (spec.name == "TransE_l2" || spec.name == "TransE") return std::make_unique<RowModel<TransEL2>>(spec);
  if (spec.name == "DistMult") return std::make_unique<RowModel<DistMult>>(spec);
  if (spec.name == "ComplEx") return std::make_unique<RowModel<ComplEx>>(spec);
  if (spec.name == "RotatE") return std::make_unique<RowModel<RotatE>>(spec);
  if (spec.name == "SimplE") return std::make_unique<RowModel<SimplE>>(spec);
  if (spec.name == "RESCAL") return make_rescal(spec);
  if (spec.name == "TransR") return make_transr(spec);
  throw std::invalid_argument("no model is called '" + spec.name + "'");
}

}  // namespace frugal
