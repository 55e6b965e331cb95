#include "table/summed_update.h"

#include <stdexcept>

namespace frugal {

Optimizer optimizer_named(const std::string& name) {
  if (name == "sgd") return Optimizer::kSgd;
  if (name == "rowwise_adagrad") return Optimizer::kRowwiseAdagrad;
  if (name == "adagrad") return Optimizer::kAdagrad;
  if (name == "adam") return Optimizer::kAdam;
  if (name == "rowwise_adam") return Optimizer::kRowwiseAdam;
  throw std::invalid_argument("no optimizer '" + name +
                              "'; there are sgd, rowwise_adagrad, adagrad, adam and rowwise_adam");
}

}  // namespace frugal
