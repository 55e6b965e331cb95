#include "tests/engine/reference_executor.h"

#include <cstring>

namespace frugal {

ReferenceExecutor::ReferenceExecutor(EngineClient& client, const RowLayout& layout, int entries, float* host_rows,
                                     std::int64_t cache_slots, std::shared_ptr<const RowUpdate> update,
                                     Gradient gradient)
    : client_(client),
      layout_(layout),
      entries_(entries),
      host_rows_(host_rows),
      update_(std::move(update)),
      gradient_(std::move(gradient)),
      cache_(static_cast<std::size_t>(cache_slots * layout.stride)) {}

void ReferenceExecutor::copy(float* to, const float* from) const {
  std::memcpy(to, from, static_cast<std::size_t>(layout_.record_floats()) * sizeof(float));
}

void ReferenceExecutor::serve_write_backs(std::int64_t step) {
  for (auto requests = client_.write_backs(step); !requests.empty(); requests = client_.write_backs(step)) {
    for (const WriteBack& request : requests) {
      float* to =
          request.leave == RowDestination::kHostRow ? host(request.target) : client_.staging().data() + request.target;
      copy(to, cached(request.slot));
    }
    client_.publish_write_backs(static_cast<std::int64_t>(requests.size()));
  }
}

std::int64_t ReferenceExecutor::step(std::int64_t step, const StepWork& work) {
  const StepPlan plan = client_.plan(step);
  serve_write_backs(step);
  const std::int64_t waited = client_.wait_gate(step);
  const std::size_t rows = plan.rows.size();
  values_.resize(rows * static_cast<std::size_t>(layout_.stride));
  const auto value = [&](std::size_t i) { return values_.data() + static_cast<std::int64_t>(i) * layout_.stride; };
  for (std::size_t i = 0; i < rows; ++i) {
    copy(value(i), plan.source[i] == kFromHost ? host(plan.rows[i]) : cached(plan.source[i]));
    if (read_) read_(step, plan.rows[i], value(i));
  }
  std::vector<const float*> pointers;
  for (std::size_t i = 0; i < rows; ++i) {
    const bool sends_gradients = plan.leave[i] == RowDestination::kGradient;
    float* staged = sends_gradients ? client_.staging().data() + plan.target[i] : nullptr;
    // All gradients come from the value at the start of the step, also those of later entries.
    std::size_t total = 0;
    for (int entry = 0; entry < entries_; ++entry)
      total += static_cast<std::size_t>(work.occurrences[static_cast<std::size_t>(entry) * rows + i]);
    gradients_.resize(total * static_cast<std::size_t>(layout_.stride));
    float* next = sends_gradients ? staged : gradients_.data();
    float* const first = next;
    for (int entry = 0; entry < entries_; ++entry)
      for (int k = 0; k < work.occurrences[static_cast<std::size_t>(entry) * rows + i]; ++k, next += layout_.stride)
        gradient_(step, client_.rank(), entry, plan.rows[i], k, value(i), next);
    if (sends_gradients) continue;
    const float* gradient = first;
    for (int entry = 0; entry < entries_; ++entry) {
      pointers.clear();
      for (int k = 0; k < work.occurrences[static_cast<std::size_t>(entry) * rows + i]; ++k, gradient += layout_.stride)
        pointers.push_back(gradient);
      if (!pointers.empty()) update_->apply(value(i), pointers, layout_);
    }
    switch (plan.leave[i]) {
      case RowDestination::kCache:
        copy(cached(plan.target[i]), value(i));
        break;
      case RowDestination::kValue:
        copy(client_.staging().data() + plan.target[i], value(i));
        break;
      default:
        copy(host(plan.target[i]), value(i));
    }
  }
  client_.publish(step);
  return waited;
}

void ReferenceExecutor::drain() {
  for (const CachedRow& row : client_.drain()) copy(host(row.row), cached(row.slot));
  client_.finish_drain();
}

}  // namespace frugal
