// The parts of the Python module, one function per layer of csrc/, each in a namespace of its own, so that files can be
// compiled together.
#pragma once

#include <nanobind/nanobind.h>

#include <stdexcept>

namespace frugal::bindings {

namespace nb = nanobind;
using nb::literals::operator""_a;

inline void require(bool good, const char* sentence) {
  if (!good) throw std::invalid_argument(sentence);
}

namespace parallel { void bind(nb::module_& module); }
namespace engine { void bind(nb::module_& module); }
namespace sampler { void bind(nb::module_& module); }
namespace data { void bind(nb::module_& module); }
namespace memory { void bind(nb::module_& module); }
namespace store { void bind(nb::module_& module); }
namespace lookup { void bind(nb::module_& module); }
namespace device_lookup { void bind(nb::module_& module); }
namespace cache { void bind(nb::module_& module); }
namespace evaluation { void bind(nb::module_& module); }
namespace step { void bind(nb::module_& module); }
namespace exchange { void bind(nb::module_& module); }
namespace machines { void bind(nb::module_& module); }
namespace replicas { void bind(nb::module_& module); }
namespace owner_transfer { void bind(nb::module_& module); }
namespace step_block { void bind(nb::module_& module); }
namespace full_softmax { void bind(nb::module_& module); }
namespace device { void bind(nb::module_& module); }
namespace kernels { void bind(nb::module_& module); }
namespace prefetch { void bind(nb::module_& module); }
namespace pairs { void bind(nb::module_& module); }
namespace matrices { void bind(nb::module_& module); }
namespace loss_from_scores { void bind(nb::module_& module); }

}  // namespace frugal::bindings
