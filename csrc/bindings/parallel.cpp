#include "parallel/thread_pool.h"

#include "bindings/bindings.h"
#include "parallel/start_thread.h"

namespace frugal {

void bind_parallel(nanobind::module_& module) {
  nanobind::exception<ThreadShortage>(module, "ThreadShortage", PyExc_RuntimeError);
  module.def("set_num_threads", &set_num_threads, nanobind::arg("threads"),
             "Set the number of threads that CPU kernels use, the caller included. Raises ValueError "
             "below 1, ThreadShortage if the system has no more.");
  module.def("num_threads", &num_threads, "The number of threads that CPU kernels use.");
}

}  // namespace frugal
