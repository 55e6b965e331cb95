#include <stdexcept>

#include "models/checks.h"
#include "models/large_models.h"
#include "models/row_models.h"

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
  std::unique_ptr<Model> model;
  if (RowModels::find(spec.name, [&]<typename Program>() { model = std::make_unique<RowModel<Program>>(spec); }))
    return model;
  if (spec.name == "RESCAL") return make_rescal(spec);
  if (spec.name == "TransR") return make_transr(spec);
  throw std::invalid_argument("no model is called '" + spec.name + "'");
}

std::vector<std::string> row_model_names() {
  std::vector<std::string> names;
  FRUGAL_ISA::RowModels::names([&](std::string_view name) { names.emplace_back(name); });
  return names;
}

}  // namespace frugal
