#include "store/cached_rows.h"

#include <algorithm>

namespace frugal {

CachedRows::CachedRows(HostTable& table, EngineClient& client)
    : table_(table),
      client_(client),
      cache_(std::max<std::int64_t>(1, client.slots()), table.layout().dim, Sharing::kPrivate, table.layout().state,
             table.layout().element) {}

void CachedRows::announce(std::int64_t step, std::span<const std::int64_t> rows,
                          std::span<const std::int32_t> occurrences) {
  if (first_step_ < 0) client_.count_from(first_step_ = step);
  client_.register_step(step - first_step_, rows, occurrences);
}

void CachedRows::serve_write_backs(std::int64_t step) {
  for (auto write_backs = client_.write_backs(step); !write_backs.empty(); write_backs = client_.write_backs(step)) {
    for (const WriteBack& leaving : write_backs) {
      std::copy_n(slot(leaving.slot), layout().record_floats(), client_.staging().data() + leaving.target);
    }
    client_.publish_write_backs(static_cast<std::int64_t>(write_backs.size()));
  }
}

void CachedRows::begin(std::int64_t step) {
  plan_ = client_.plan(step - first_step_);
  serve_write_backs(plan_.step);
  client_.wait_gate(plan_.step);
  const std::size_t count = plan_.rows.size();
  source_.resize(count);
  destination_.resize(count);
  gradient_.assign(count, nullptr);
  float* const staging = client_.staging().data();
  for (std::size_t u = 0; u < count; ++u) {
    source_[u] = plan_.source[u] == kFromHost ? table_.row(plan_.rows[u]) : slot(plan_.source[u]);
    switch (plan_.leave[u]) {
      case RowDestination::kCache:
        destination_[u] = slot(plan_.target[u]);
        break;
      case RowDestination::kValue:
        destination_[u] = staging + plan_.target[u];
        break;
      case RowDestination::kGradient:
        destination_[u] = nullptr;
        gradient_[u] = staging + plan_.target[u];
        break;
      case RowDestination::kHostRow:
      case RowDestination::kWriteBackBuffer:
      case RowDestination::kPublishedBeforeSync:
        throw std::logic_error("Rows on the CPU leave through staging.");
    }
  }
}

void CachedRows::end() { client_.publish(plan_.step); }

void CachedRows::drain() {
  for (const CachedRow& cached : client_.drain())
    std::copy_n(slot(cached.slot), layout().record_floats(), table_.row(cached.row));
  client_.finish_drain();
}

}  // namespace frugal
