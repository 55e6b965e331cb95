#include "exchange/host_exchange.h"

#include <algorithm>
#include <atomic>
#include <stdexcept>
#include <thread>

namespace frugal {
namespace {

constexpr std::int64_t kLineFloats = kExchangeLine / sizeof(float);

std::int64_t whole_lines(std::int64_t floats) { return (floats + kLineFloats - 1) / kLineFloats * kLineFloats; }

}  // namespace

std::size_t HostExchange::bytes_needed(int ranks, std::int64_t first_floats, std::int64_t second_floats) {
  return sizeof(ExchangeWords) +
         static_cast<std::size_t>(ranks) * (whole_lines(first_floats) + whole_lines(second_floats)) * sizeof(float);
}

HostExchange::HostExchange(std::byte* segment, std::size_t bytes, int rank, int ranks, std::int64_t first_floats,
                           std::int64_t second_floats, const ExchangeRules& rules)
    : words_(reinterpret_cast<ExchangeWords*>(segment)),
      parts_(reinterpret_cast<float*>(segment + sizeof(ExchangeWords))),
      rank_(rank),
      ranks_(ranks),
      floats_{whole_lines(first_floats), whole_lines(second_floats)},
      rules_(rules) {
  if (ranks < 1 || ranks > kMostRanks || rank < 0 || rank >= ranks)
    throw std::invalid_argument("an exchange is for 1 to " + std::to_string(kMostRanks) + " ranks");
  if (first_floats < 1 || second_floats < 1 || bytes < bytes_needed(ranks, first_floats, second_floats) ||
      reinterpret_cast<std::uintptr_t>(segment) % kExchangeLine)
    throw std::invalid_argument("the segment of an exchange is too small, or not aligned");
}

float* HostExchange::part(int region, int rank) {
  if (!rules_.two_regions) region = 0;
  return parts_ + rank * (floats_[0] + floats_[1]) + (region ? floats_[0] : 0);
}

bool HostExchange::failed() const {
  return std::atomic_ref(words_->failed).load(std::memory_order_relaxed) != 0;
}

void HostExchange::post() {
  ++posted_;
  std::atomic_ref(words_->word[rank_].posted).store(posted_, std::memory_order_release);
}

bool HostExchange::await() {
  int left = rules_.awaits_all ? ranks_ - 1 : ranks_ - 2;
  for (int other = 0; other < ranks_ && left > 0; ++other) {
    if (other == rank_) continue;
    --left;
    while (std::atomic_ref(words_->word[other].posted).load(std::memory_order_acquire) < posted_) {
      if (failed()) return false;
      std::this_thread::yield();
    }
  }
  if (rules_.before_reading) rules_.before_reading(rank_);
  return true;
}

void HostExchange::sum(int region, std::int64_t count, float divisor, float* to) {
  if (count > floats_[region]) throw std::invalid_argument("more floats than a region of the exchange has");
  post();
  if (!await()) return;
  const auto add = [&](int from, bool first) {
    const float* x = part(region, from);
    for (std::int64_t i = 0; i < count; ++i) to[i] = first ? x[i] : to[i] + x[i];
  };
  if (rules_.in_rank_order) {
    for (int from = 0; from < ranks_; ++from) add(from, from == 0);
  } else {
    add(rank_, true);
    for (int from = 0; from < ranks_; ++from)
      if (from != rank_) add(from, false);
  }
  if (divisor != 1.0f)
    for (std::int64_t i = 0; i < count; ++i) to[i] /= divisor;
}

void HostExchange::fail(const std::string& sentence) {
  std::uint32_t none = 0;
  if (!std::atomic_ref(words_->failed).compare_exchange_strong(none, 1)) return;
  const std::size_t length = std::min(sentence.size(), sizeof(words_->sentence) - 1);
  std::copy_n(sentence.data(), length, words_->sentence);
  words_->sentence[length] = '\0';
  std::atomic_ref(words_->failed).store(2, std::memory_order_release);
}

std::string HostExchange::sentence() const {
  if (!failed()) return "";
  while (std::atomic_ref(words_->failed).load(std::memory_order_acquire) == 1) std::this_thread::yield();
  return words_->sentence;
}

}  // namespace frugal
