#include "engine/testing.h"

#if defined(FRUGAL_ENGINE_TESTING)

#include <atomic>
#include <memory>
#include <utility>

namespace frugal {
namespace {

std::atomic<Mutation> current_mutation{Mutation::kNone};
std::shared_ptr<SyncPointFunction> sync_point_function;  // through std::atomic_load/store

}  // namespace

void set_mutation(Mutation mutation) { current_mutation = mutation; }
bool mutated(Mutation mutation) { return current_mutation.load(std::memory_order_relaxed) == mutation; }

void set_sync_points(SyncPointFunction function) {
  std::atomic_store(&sync_point_function,
                    function ? std::make_shared<SyncPointFunction>(std::move(function)) : nullptr);
}

void reach_sync_point(const char* name, std::int64_t detail) {
  if (const auto function = std::atomic_load(&sync_point_function)) (*function)(name, detail);
}

}  // namespace frugal

#endif
