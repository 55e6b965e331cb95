#include "base/parallel/thread_pool.h"

#include <cstdint>

#include "base/parallel/callers_threads.h"
#include "base/parallel/start_thread.h"
#include "bindings/bindings.h"

namespace frugal::bindings::parallel {

void bind(nb::module_& module) {
  nb::exception<ThreadShortage>(module, "ThreadShortage", PyExc_RuntimeError);
  module.def("set_num_threads", &set_num_threads, "threads"_a,
             "Set the number of threads that CPU kernels use, the caller included. Raises ValueError "
             "below 1, ThreadShortage if the system has no more.");
  module.def(
      "borrow_threads",
      [](std::uintptr_t gomp_parallel) { borrow_threads(reinterpret_cast<RunInTeam>(gomp_parallel)); },
      "gomp_parallel"_a,
      "Lookups run on the threads of this OpenMP runtime, given by the address of its GOMP_parallel; 0: on our own.");
  module.def("num_threads", &num_threads, "The number of threads that CPU kernels use.");
}

}  // namespace frugal::bindings::parallel
