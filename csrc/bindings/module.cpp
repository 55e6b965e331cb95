#include "bindings/bindings.h"

NB_MODULE(_native, module) {
  using namespace frugal::bindings;
  nanobind::set_leak_warnings(false);  // of what the interpreter itself does not release at its end: nothing a user can
                                       // mend
  module.doc() = "C++ core of dglke_frugal. Tensors cross as DLPack or buffers, streams as integers; no torch in here.";
  module.attr("has_cuda") = static_cast<bool>(FRUGAL_HAS_CUDA);
  parallel::bind(module);
  engine::bind(module);
  sampler::bind(module);
  data::bind(module);
  memory::bind(module);
  store::bind(module);
  lookup::bind(module);
  device_lookup::bind(module);
  cache::bind(module);
  evaluation::bind(module);
  step::bind(module);
  exchange::bind(module);
  replicas::bind(module);
  machines::bind(module);
  owner_transfer::bind(module);
  step_block::bind(module);
  full_softmax::bind(module);
  device::bind(module);
  kernels::bind(module);
  prefetch::bind(module);
  pairs::bind(module);
  matrices::bind(module);
  loss_from_scores::bind(module);
}
