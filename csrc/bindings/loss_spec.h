// The loss of a step, as Python describes it.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>

#include "bindings/named.h"
#include "models/loss.h"

namespace frugal::bindings {

namespace nb = nanobind;

// loss: its LossConfig. BCE with labels 1 and 0 is the same function as the two before it, and here cannot overflow.
inline LossSpec loss_spec(nb::handle loss) {
  constexpr LossGenre kSoftplus = LossGenre::kSoftplus;
  return {named<LossGenre>({{"Logsigmoid", kSoftplus}, {"Logistic", kSoftplus}, {"BCE", kSoftplus},
                            {"Hinge", LossGenre::kHinge}, {"Softmax", LossGenre::kSoftmax}},
                           nb::cast<std::string>(loss.attr("genre")), "loss"),
          nb::cast<float>(loss.attr("margin")),
          nb::cast<bool>(loss.attr("pairwise")),
          nb::cast<bool>(loss.attr("adversarial")),
          nb::cast<float>(loss.attr("temperature")),
          nb::cast<float>(loss.attr("regularization_coefficient")),
          nb::cast<float>(loss.attr("regularization_norm"))};
}

}  // namespace frugal::bindings
