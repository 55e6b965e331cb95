// The models with a matrix per relation, which are more than one row program.
#pragma once

#include <memory>

#include "models/model.h"

namespace frugal {

std::unique_ptr<Model> make_rescal(const ModelSpec& spec);  // by either rule
std::unique_ptr<Model> make_rescal_of_dglke(const ModelSpec& spec);
std::unique_ptr<Model> make_transr(const ModelSpec& spec);

}  // namespace frugal
