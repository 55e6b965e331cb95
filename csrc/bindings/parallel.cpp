#include "parallel/thread_pool.h"

#include "bindings/bindings.h"

namespace frugal {

void bind_parallel(nanobind::module_& module) {
  module.def("set_num_threads", &set_num_threads, nanobind::arg("threads"),
             "Set the number of threads that CPU kernels use, the caller included. Raises ValueError below 1.");
  module.def("num_threads", &num_threads, "The number of threads that CPU kernels use.");
}

}  // namespace frugal
