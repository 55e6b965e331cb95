// The models that are row programs, in one list: who takes a model by its name finds it here. They are computed
// on the CPU and, from the same source, on devices.
#pragma once

#include <string_view>

#include "models/complex.h"
#include "models/distmult.h"
#include "models/rotate.h"
#include "models/simple.h"
#include "models/transe.h"

namespace frugal::FRUGAL_ISA {

template <typename... Programs>
struct ProgramList {
  // Calls body.template operator()<Program>() for the program of that name; false if there is none.
  template <typename Body>
  static bool find(std::string_view name, Body body) {
    return ((is<Programs>(name) ? (body.template operator()<Programs>(), true) : false) || ...);
  }
  // Calls body(name) for each name, aliases included.
  template <typename Body>
  static void names(Body body) {
    ([&] { for (const std::string_view name : Programs::kNames) body(name); }(), ...);
  }

 private:
  template <typename Program>
  static bool is(std::string_view name) {
    for (const std::string_view each : Program::kNames)
      if (each == name) return true;
    return false;
  }
};

using RowModels = ProgramList<TransEL1, TransEL2, DistMult, ComplEx, RotatE, SimplE>;

}  // namespace frugal::FRUGAL_ISA
