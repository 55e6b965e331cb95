// The parts of the Python module, one function per layer of csrc/.
#pragma once

#include <nanobind/nanobind.h>

namespace frugal {

void bind_parallel(nanobind::module_& module);
void bind_engine(nanobind::module_& module);
void bind_sampler(nanobind::module_& module);
void bind_data(nanobind::module_& module);
void bind_memory(nanobind::module_& module);
void bind_store(nanobind::module_& module);
void bind_lookup(nanobind::module_& module);
void bind_device_lookup(nanobind::module_& module);
void bind_cache(nanobind::module_& module);
void bind_evaluation(nanobind::module_& module);
void bind_step(nanobind::module_& module);
void bind_exchange(nanobind::module_& module);
void bind_replicas(nanobind::module_& module);
void bind_carried(nanobind::module_& module);
void bind_step_block(nanobind::module_& module);
void bind_full_softmax(nanobind::module_& module);
void bind_device(nanobind::module_& module);
void bind_kernels(nanobind::module_& module);
void bind_arrival(nanobind::module_& module);
void bind_pairs(nanobind::module_& module);
void bind_matrices(nanobind::module_& module);
void bind_given_scores(nanobind::module_& module);

}  // namespace frugal
