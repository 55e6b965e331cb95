// Which rows of a table the machines use in the coming steps, merged: every machine has the same lists.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <deque>
#include <mutex>
#include <span>
#include <stdexcept>
#include <utility>
#include <vector>

#include "machines/machine_steps.h"

namespace frugal {

using Users = std::uint64_t;  // machines, as bits

constexpr Users machine_bit(int machine) { return Users{1} << machine; }

inline int first_of(Users machines) { return std::countr_zero(machines); }

struct UsedRow {
  std::int64_t id;
  Users users;
  Users before = 0, next = 0;    // of the step before, and of the next one
  std::int32_t next_place = -1;  // among the rows of the next step, if it is used there
  std::int32_t owner = 0;        // of tables whose rows have owners
  std::int64_t local = -1;       // its number in the owner's table, where that is this machine's

  bool is_shared() const { return (users & (users - 1)) != 0; }
};

// Of one step.
struct StepUse {
  std::int64_t number = -1;
  std::vector<UsedRow> rows;  // that any machine uses, ascending
  // By machine: places of its rows in `rows`; for each of `rows`, its place among them, -1 for none; and how many
  // gradients they have, entry after entry.
  std::vector<std::vector<std::int32_t>> used, place, occurrences;

  // Calls f(row, u) for each row that a machine uses; u: its place among those of the machine.
  template <typename F>
  void for_rows_of(int machine, F f) const {
    const auto& rows_used = used[static_cast<std::size_t>(machine)];
    for (std::size_t u = 0; u < rows_used.size(); ++u)
      f(rows[static_cast<std::size_t>(rows_used[u])], static_cast<std::int32_t>(u));
  }
};

// The steps that are announced and not done. Step: a StepUse with what a table needs besides. One thread announces
// steps while another one finds and drops earlier ones.
template <typename Step>
class StepUses {
 public:
  // Steps are announced in order, each once. Throws std::invalid_argument for uses that do not fit a table of `rows`
  // rows and steps of `entries` entries.
  Step& announce(std::int64_t number, std::span<const MachineUse> of_machines, std::int64_t rows, std::size_t entries) {
    Step step;
    {
      const std::lock_guard lock(mutex_);
      if (!steps_.empty() && number != steps_.back().number + 1)
        throw std::invalid_argument("steps must be announced in order, each once");
      if (!spare_.empty()) {
        step = std::move(spare_.back());
        spare_.pop_back();
      }
    }
    step.number = number;
    merge(step, of_machines, rows, entries);
    if (Step* before = find(number - 1)) join(before->rows, step.rows);
    const std::lock_guard lock(mutex_);
    return steps_.emplace_back(std::move(step));
  }

  // nullptr for a step that is not announced, or done.
  Step* find(std::int64_t number) {
    const std::lock_guard lock(mutex_);
    if (steps_.empty() || number < steps_.front().number) return nullptr;
    const auto place = static_cast<std::size_t>(number - steps_.front().number);
    return place < steps_.size() ? &steps_[place] : nullptr;
  }
  const Step* find(std::int64_t number) const { return const_cast<StepUses*>(this)->find(number); }

  void drop_before(std::int64_t number) {
    const std::lock_guard lock(mutex_);
    while (!steps_.empty() && steps_.front().number < number) {
      spare_.push_back(std::move(steps_.front()));
      steps_.pop_front();
    }
  }

 private:
  static void merge(Step& step, std::span<const MachineUse> of_machines, std::int64_t rows, std::size_t entries) {
    const std::size_t machines = of_machines.size();
    const auto require = [](bool condition, const char* sentence) {
      if (!condition) throw std::invalid_argument(sentence);
    };
    step.rows.clear();
    for (auto* lists : {&step.used, &step.place, &step.occurrences}) lists->resize(machines);
    std::vector<std::size_t> next(machines, 0);
    for (std::size_t m = 0; m < machines; ++m) {
      const MachineUse& use = of_machines[m];
      require(use.occurrences.size() == entries * use.rows.size(), "each row has occurrences in each entry");
      require(use.rows.empty() || (use.rows.front() >= 0 && use.rows.back() < rows), "rows must lie in the table");
      step.occurrences[m].assign(use.occurrences.begin(), use.occurrences.end());
      step.used[m].resize(use.rows.size());
    }
    while (true) {
      std::int64_t id = -1;
      for (std::size_t m = 0; m < machines; ++m)
        if (next[m] < of_machines[m].rows.size() && (id < 0 || of_machines[m].rows[next[m]] < id))
          id = of_machines[m].rows[next[m]];
      if (id < 0) break;
      UsedRow row{.id = id, .users = 0};
      for (std::size_t m = 0; m < machines; ++m)
        if (next[m] < of_machines[m].rows.size() && of_machines[m].rows[next[m]] == id) {
          step.used[m][next[m]++] = static_cast<std::int32_t>(step.rows.size());
          row.users |= machine_bit(static_cast<int>(m));
        }
      require(step.rows.empty() || step.rows.back().id < id, "rows must be distinct and ascending");
      step.rows.push_back(row);
    }
    for (std::size_t m = 0; m < machines; ++m) {
      step.place[m].assign(step.rows.size(), -1);
      for (std::size_t u = 0; u < step.used[m].size(); ++u)
        step.place[m][static_cast<std::size_t>(step.used[m][u])] = static_cast<std::int32_t>(u);
    }
  }

  // Tells rows of a step who uses them in the next one, and the other way round.
  static void join(std::vector<UsedRow>& earlier, std::vector<UsedRow>& later) {
    auto row = later.begin();
    for (UsedRow& each : earlier) {
      while (row != later.end() && row->id < each.id) ++row;
      if (row == later.end()) return;
      if (row->id != each.id) continue;
      each.next = row->users;
      each.next_place = static_cast<std::int32_t>(row - later.begin());
      row->before = each.users;
    }
  }

  std::mutex mutex_;  // of the lists, and not of the steps in them
  std::deque<Step> steps_;
  std::vector<Step> spare_;  // whose memory is used again
};

}  // namespace frugal
