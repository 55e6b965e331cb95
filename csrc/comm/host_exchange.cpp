#include "comm/host_exchange.h"

#include <algorithm>
#include <atomic>
#include <stdexcept>
#include <thread>

namespace frugal {
namespace {

constexpr std::int64_t kLineFloats = kExchangeLine / sizeof(float);

std::int64_t whole_lines(std::int64_t floats) { return (floats + kLineFloats - 1) / kLineFloats * kLineFloats; }

void check(std::int64_t floats, std::int64_t room) {
  if (floats > room) throw std::invalid_argument("more floats than a region of the exchange has");
}

}  // namespace

void ExchangeWords::fail(const std::string& why) {
  std::uint32_t none = 0;
  if (!std::atomic_ref(failed).compare_exchange_strong(none, 1)) return;
  const std::size_t length = std::min(why.size(), sizeof(sentence) - 1);
  std::copy_n(why.data(), length, sentence);
  sentence[length] = '\0';
  std::atomic_ref(failed).store(2, std::memory_order_release);
}

std::size_t HostExchange::bytes_needed(int ranks, const ExchangeFloats& floats) {
  const std::int64_t of_rank = whole_lines(floats.scores) + whole_lines(floats.squares);
  return sizeof(ExchangeWords) +
         static_cast<std::size_t>(ranks * of_rank + whole_lines(floats.weights)) * sizeof(float);
}

HostExchange::HostExchange(std::byte* segment, std::size_t bytes, int rank, int ranks, const ExchangeFloats& floats,
                           const ExchangeRules& rules)
    : words_(reinterpret_cast<ExchangeWords*>(segment)),
      regions_(reinterpret_cast<float*>(segment + sizeof(ExchangeWords))),
      rank_(rank),
      ranks_(ranks),
      floats_{whole_lines(floats.scores), whole_lines(floats.weights), whole_lines(floats.squares)},
      rules_(rules) {
  if (ranks < 1 || ranks > kMostHostRanks || rank < 0 || rank >= ranks)
    throw std::invalid_argument("an exchange is for 1 to " + std::to_string(kMostHostRanks) + " ranks");
  if (std::min({floats.scores, floats.weights, floats.squares}) < 1 || bytes < bytes_needed(ranks, floats) ||
      reinterpret_cast<std::uintptr_t>(segment) % kExchangeLine)
    throw std::invalid_argument("the segment of an exchange is too small, or not aligned");
}

float* HostExchange::part(ExchangeRegion region, int rank) {
  if (!rules_.regions_apart) return regions_ + (region == ExchangeRegion::kWeights ? 0 : rank * floats_.scores);
  if (region == ExchangeRegion::kWeights) return regions_;
  float* const scores = regions_ + floats_.weights;
  if (region == ExchangeRegion::kScores) return scores + rank * floats_.scores;
  return scores + ranks_ * floats_.scores + rank * floats_.squares;
}

bool HostExchange::failed() const {
  return std::atomic_ref(words_->failed).load(std::memory_order_relaxed) != 0;
}

void HostExchange::post() {
  ++posted_;
  std::atomic_ref(words_->word[rank_].posted).store(posted_, std::memory_order_release);
}

bool HostExchange::await(ExchangeRegion region) {
  const bool careless = rules_.careless == static_cast<int>(region) || rules_.careless == ExchangeRules::kEverywhere;
  int left = careless ? ranks_ - 2 : ranks_ - 1;
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

bool HostExchange::barrier(ExchangeRegion region) {
  post();
  return await(region);
}

void HostExchange::add_parts(ExchangeRegion region, std::int64_t first, std::int64_t count, float* to) {
  const auto add = [&](int from, bool is_first) {
    const float* x = part(region, from) + first;
    for (std::int64_t i = 0; i < count; ++i) to[i] = is_first ? x[i] : to[i] + x[i];
  };
  if (rules_.in_rank_order) {
    for (int from = 0; from < ranks_; ++from) add(from, from == 0);
  } else {
    add(rank_, true);
    for (int from = 0; from < ranks_; ++from)
      if (from != rank_) add(from, false);
  }
}

void HostExchange::reduce_scatter(float* values, std::int64_t rows, std::int64_t width, std::int64_t common) {
  const Share own = share_of(rows, rank_, ranks_);
  const std::int64_t count = rows * width + common;
  check(count, floats_.scores);
  std::copy_n(values, count, part(ExchangeRegion::kScores, rank_));
  if (!barrier(ExchangeRegion::kScores)) return;
  add_parts(ExchangeRegion::kScores, own.first * width, own.rows() * width, values + own.first * width);
  add_parts(ExchangeRegion::kScores, rows * width, common, values + rows * width);
}

void HostExchange::all_gather(float* records, std::int64_t rows, std::int64_t width) {
  const Share own = share_of(rows, rank_, ranks_);
  check(rows * width, floats_.weights);
  float* const shared = part(ExchangeRegion::kWeights, rank_);
  std::copy(records + own.first * width, records + own.end * width, shared + own.first * width);
  if (!barrier(ExchangeRegion::kWeights)) return;
  std::copy(shared, shared + own.first * width, records);
  std::copy(shared + own.end * width, shared + rows * width, records + own.end * width);
}

void HostExchange::all_reduce_mean(float* values, std::int64_t count) {
  check(count, floats_.squares);
  std::copy_n(values, count, part(ExchangeRegion::kSquares, rank_));
  if (!barrier(ExchangeRegion::kSquares)) return;
  add_parts(ExchangeRegion::kSquares, 0, count, values);
  for (std::int64_t i = 0; i < count; ++i) values[i] /= static_cast<float>(ranks_);
}

std::string HostExchange::sentence() const {
  if (!failed()) return "";
  while (std::atomic_ref(words_->failed).load(std::memory_order_acquire) == 1) std::this_thread::yield();
  return words_->sentence;
}

}  // namespace frugal
