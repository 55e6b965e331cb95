#include "comm/owner_lists.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <mutex>
#include <numeric>
#include <stdexcept>
#include <thread>
#include <utility>

namespace frugal {
namespace {

constexpr int kSpins = 4000;
constexpr std::chrono::milliseconds kLook{100};  // how often to look whether the others are still there
constexpr std::chrono::microseconds kNap{50};

std::int64_t cell_numbers(int ranks, std::int64_t max_rows) {
  constexpr std::int64_t kLineNumbers = kExchangeLine / sizeof(std::int64_t);
  return (ranks + max_rows + kLineNumbers - 1) / kLineNumbers * kLineNumbers;
}

std::uint64_t read(std::uint64_t& word) { return std::atomic_ref(word).load(std::memory_order_acquire); }

void write(std::uint64_t& word, std::int64_t value) {
  std::atomic_ref(word).store(static_cast<std::uint64_t>(value), std::memory_order_release);
}

}  // namespace

std::size_t OwnerLists::bytes_needed(int ranks, std::int64_t steps, std::int64_t max_rows) {
  return sizeof(ExchangeWords) + static_cast<std::size_t>(ranks) * sizeof(Rank) +
         static_cast<std::size_t>(ranks * steps * cell_numbers(ranks, max_rows)) * sizeof(std::int64_t);
}

OwnerLists::OwnerLists(std::byte* segment, std::size_t bytes, int rank, int ranks, std::int64_t steps,
                       std::int64_t max_rows)
    : failure_(reinterpret_cast<ExchangeWords*>(segment)),
      words_(reinterpret_cast<Rank*>(segment + sizeof(ExchangeWords))),
      cells_(reinterpret_cast<std::int64_t*>(segment + sizeof(ExchangeWords) +
                                             static_cast<std::size_t>(ranks) * sizeof(Rank))),
      rank_(rank),
      ranks_(ranks),
      steps_(steps),
      max_rows_(max_rows),
      processes_(static_cast<std::size_t>(std::max(ranks, 0))) {
  if (rank < 0 || rank >= ranks || ranks > kMostRanks || steps < 1 || max_rows < 0 ||
      bytes < bytes_needed(ranks, steps, max_rows) ||
      reinterpret_cast<std::uintptr_t>(segment) % kExchangeLine != 0)
    throw std::invalid_argument("the segment of lists of rows is too small, or not aligned");
  std::atomic_ref(word(rank_).pid).store(getpid(), std::memory_order_release);
}

OwnerLists::~OwnerLists() { std::atomic_ref(word(rank_).pid).store(-1, std::memory_order_release); }

std::int64_t* OwnerLists::cell(int rank, std::int64_t step) {
  return cells_ + (rank * steps_ + step % steps_) * cell_numbers(ranks_, max_rows_);
}

void OwnerLists::check() {
  if (std::atomic_ref(failure_->failed).load(std::memory_order_acquire) == 2)
    throw std::runtime_error(failure_->sentence);
}

// A rank that others wait for.
void OwnerLists::look_at(int rank) {
  const std::lock_guard lock(looking_);
  const std::int32_t pid = std::atomic_ref(word(rank).pid).load(std::memory_order_acquire);
  if (pid == -1) {
    fail("Rank " + std::to_string(rank) + " has left, and other ranks wait for it.");
  } else if (pid != 0 && pid != getpid() && processes_[static_cast<std::size_t>(rank)].has_ended(pid)) {
    fail("Rank " + std::to_string(rank) + " (process " + std::to_string(pid) + ") has ended.");
  }
}

template <class Ready>
void OwnerLists::wait(Ready ready) {
  auto look = std::chrono::steady_clock::now() + kLook;
  for (int other = 0; other < ranks_; ++other)
    for (std::int64_t round = 0; !ready(other); ++round) {
      check();
      if (round < kSpins) {
        std::this_thread::yield();
        continue;
      }
      std::this_thread::sleep_for(kNap);
      if (std::chrono::steady_clock::now() < look) continue;
      if (!ready(other)) look_at(other);
      look = std::chrono::steady_clock::now() + kLook;
    }
}

void OwnerLists::look() {
  check();
  for (int other = 0; other < ranks_; ++other) look_at(other);
}

void OwnerLists::introduce(const std::string& handle) {
  if (handle.empty() || handle.size() > kMostHandleBytes)
    throw std::invalid_argument("a handle is longer than there is room for, or empty");
  std::ranges::copy(handle, word(rank_).handle);
  std::atomic_ref(word(rank_).handle_bytes)
      .store(static_cast<std::uint32_t>(handle.size()), std::memory_order_release);
}

std::vector<std::string> OwnerLists::handles() {
  std::vector<std::string> found;
  wait([&](int other) {
    const auto bytes = std::atomic_ref(word(other).handle_bytes).load(std::memory_order_acquire);
    if (bytes > 0) found.emplace_back(word(other).handle, bytes);
    return bytes > 0;
  });
  return found;
}

void OwnerLists::post(std::span<const std::int64_t> rows) {
  if (std::cmp_greater(rows.size(), max_rows_))
    throw std::invalid_argument("a step of " + std::to_string(rows.size()) +
                                " rows was posted, but there is room for " + std::to_string(max_rows_));
  check();
  wait([&](int other) { return read(word(other).taken) + static_cast<std::uint64_t>(steps_) >
                               static_cast<std::uint64_t>(posted_); });
  std::int64_t* const to = cell(rank_, posted_);
  auto begin = rows.begin();
  for (int owner = 0; owner < ranks_; ++owner) {  // whose rows follow each other
    const auto end =
        std::partition_point(begin, rows.end(), [&](std::int64_t row) { return row % ranks_ == owner; });
    to[owner] = end - begin;
    begin = end;
  }
  std::ranges::copy(rows, to + ranks_);
  write(word(rank_).posted, ++posted_);
}

bool OwnerLists::ready() {
  check();
  for (int other = 0; other < ranks_; ++other)
    if (read(word(other).posted) <= static_cast<std::uint64_t>(taken_)) return false;
  return true;
}

OwnedRows OwnerLists::take(std::vector<std::int64_t>& rows) {
  if (taken_ >= posted_) throw std::logic_error("a rank takes the rows of a step that it has posted");
  check();
  wait([&](int other) { return read(word(other).posted) > static_cast<std::uint64_t>(taken_); });
  rows.clear();
  OwnedRows owned{};
  for (int from = 0; from < ranks_; ++from) {
    const std::int64_t* const given = cell(from, taken_);
    owned.place[from] = std::accumulate(given, given + rank_, std::int64_t{0});
    const std::int64_t* const first = given + ranks_ + owned.place[from];
    rows.insert(rows.end(), first, first + given[rank_]);
    owned.begin[from + 1] = std::ssize(rows);
  }
  write(word(rank_).taken, ++taken_);
  return owned;
}

void OwnerLists::begin() {
  check();
  write(word(rank_).begun, ++begun_);
}

void OwnerLists::meet() {
  check();
  write(word(rank_).met, ++met_);
  wait([&](int other) {
    const std::uint64_t begun = read(word(other).begun);
    if (read(word(other).met) >= static_cast<std::uint64_t>(met_)) return true;  // before it began what it has begun
    if (begun > static_cast<std::uint64_t>(begun_))
      fail("Rank " + std::to_string(rank_) + " waits for all ranks to bring their updates, but rank " +
           std::to_string(other) + " goes on with step " + std::to_string(begun_) +
           ". All ranks ask for weight, state_dict, save, close and lookups without a gradient after the same step.");
    return false;
  });
}

}  // namespace frugal
