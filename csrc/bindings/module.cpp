#include "bindings/bindings.h"

NB_MODULE(_native, module) {
  nanobind::set_leak_warnings(false);  // of what the interpreter itself does not release at its end: nothing a user can mend
  module.doc() = "C++ core of dglke_frugal. Tensors cross as DLPack or buffers, streams as integers; no torch in here.";
  module.attr("has_cuda") = static_cast<bool>(FRUGAL_HAS_CUDA);
  frugal::bind_parallel(module);
  frugal::bind_engine(module);
  frugal::bind_sampler(module);
  frugal::bind_data(module);
  frugal::bind_memory(module);
  frugal::bind_store(module);
  frugal::bind_lookup(module);
  frugal::bind_device_lookup(module);
  frugal::bind_cache(module);
  frugal::bind_evaluation(module);
  frugal::bind_step(module);
  frugal::bind_exchange(module);
  frugal::bind_replicas(module);
  frugal::bind_carried(module);
  frugal::bind_step_block(module);
  frugal::bind_full_softmax(module);
  frugal::bind_device(module);
  frugal::bind_kernels(module);
  frugal::bind_arrival(module);
  frugal::bind_pairs(module);
  frugal::bind_matrices(module);
  frugal::bind_given_scores(module);
}
