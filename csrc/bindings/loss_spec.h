// The loss of a step, as Python describes it.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>

#include "bindings/named.h"
#include "models/loss.h"

namespace frugal::bindings {

namespace nb = nanobind;

// loss: its LossConfig.
inline LossSpec loss_spec(nb::handle loss) {
  std::map<std::string, LossGenre> genres;
  for (const LossName& each : kLossNames) genres[each.name] = each.genre;
  return {named(genres, nb::cast<std::string>(loss.attr("genre")), "loss"),
          nb::cast<float>(loss.attr("margin")),
          nb::cast<bool>(loss.attr("pairwise")),
          nb::cast<bool>(loss.attr("adversarial")),
          nb::cast<float>(loss.attr("temperature")),
          nb::cast<float>(loss.attr("regularization_coefficient")),
          nb::cast<float>(loss.attr("regularization_norm"))};
}

}  // namespace frugal::bindings
