// Ranks with in-step synchronisation, each with streams of prefetches, computation and write-backs: in whatever order
// these run that their waits allow, every step reads the newest values. And rules that are broken are seen.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <vector>

#include "engine/engine.h"
#include "engine/testing.h"
#include "tests/engine/random_admission.h"

namespace frugal::testing::synchronised_ranks {
namespace {

constexpr int kSteps = 60, kBufferSteps = 3;
constexpr std::int64_t kMaxRows = 10, kSlots = 4;

// What a device has to wait for, and a test may leave out.
enum class Wait { kNone, kPublishForWriteBack, kPrefetchForWriteBack, kFirstCollective, kSecondCollective };

struct Planned {
  std::vector<std::int64_t> rows, target;
  std::vector<std::int32_t> source;
  std::vector<RowDestination> leave;
  std::vector<WriteBack> write_backs;
};

using Plans = std::vector<std::vector<Planned>>;  // [step][rank]

Plans random_plans(int ranks, bool cached, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  const std::int64_t rows = random() % 2 ? 40 : 16;
  const int lookahead = 1 + static_cast<int>(random() % 5);
  std::vector<std::vector<std::vector<std::int64_t>>> steps(kSteps);
  for (auto& step : steps)
    for (int r = 0; r < ranks; ++r) {
      std::set<std::int64_t> list;
      for (std::uint64_t size = random() % kMaxRows; list.size() < size;)
        list.insert(static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(rows)));
      step.emplace_back(list.begin(), list.end());
    }
  const RowLayout layout = RowLayout::for_dim(1);
  std::vector<float> table(static_cast<std::size_t>(rows * layout.stride));
  EngineConfig config;
  config.ranks = ranks;
  config.lookahead = lookahead;
  config.mode = FlushMode::kDirect;
  config.write_back_steps = kBufferSteps;
  config.layout = layout;
  config.rows = rows;
  config.host_rows = table.data();
  config.max_rows_per_step = kMaxRows;
  config.update = std::make_shared<RowAdagradUpdate>(0.1f);
  for (int r = 0; cached && r < ranks; ++r)
    config.caches.push_back(std::make_shared<RandomAdmission>(kSlots, 0.3, seed + static_cast<std::uint64_t>(r)));
  Engine engine(config);
  const std::vector<std::int32_t> once(2 * kMaxRows, 1);
  Plans plans(kSteps, std::vector<Planned>(static_cast<std::size_t>(ranks)));
  std::int64_t registered = 0;
  for (std::int64_t s = 0; s < kSteps; ++s) {
    const auto step = static_cast<std::size_t>(s);
    for (; registered < kSteps && registered <= s + lookahead; ++registered)
      for (int r = 0; r < ranks; ++r) {
        const auto& list = steps[static_cast<std::size_t>(registered)][static_cast<std::size_t>(r)];
        engine.client(r).register_step(registered, list, {once.data(), 2 * list.size()});
      }
    for (int r = 0; r < ranks; ++r) {
      EngineClient& client = engine.client(r);
      const StepPlan plan = client.plan(s);
      Planned& made = plans[step][static_cast<std::size_t>(r)];
      made.rows.assign(plan.rows.begin(), plan.rows.end());
      made.source.assign(plan.source.begin(), plan.source.end());
      made.leave.assign(plan.leave.begin(), plan.leave.end());
      made.target.assign(plan.target.begin(), plan.target.end());
      for (auto requests = client.write_backs(s); !requests.empty(); requests = client.write_backs(s)) {
        made.write_backs.insert(made.write_backs.end(), requests.begin(), requests.end());
        client.publish_write_backs(std::ssize(requests));
      }
      client.wait_gate(s);
      client.publish(s);
    }
  }
  return plans;
}

// The devices of all ranks, whose rows are versions: each step writes its number plus one into all of its rows.
class Devices {
 public:
  Devices(const Plans& plans, Wait broken, std::uint64_t seed) : plans_(plans), broken_(broken), random_(seed) {
    const std::size_t ranks = plans[0].size();
    for (std::size_t r = 0; r < ranks; ++r) ranks_.emplace_back();
    std::map<std::int64_t, std::int64_t> newest;
    for (std::int64_t s = 0; s < kSteps; ++s) {
      for (const Planned& plan : plans[static_cast<std::size_t>(s)])
        for (const std::int64_t row : plan.rows) expected_[{s, row}] = newest[row];
      for (const Planned& plan : plans[static_cast<std::size_t>(s)])
        for (const std::int64_t row : plan.rows) newest[row] = s + 1;
    }
  }

  // Returns how many reads were of other values than the newest.
  int run() {
    for (std::size_t r = 0; r < ranks_.size(); ++r) enqueue(r);
    while (true) {
      std::vector<std::pair<std::size_t, std::vector<Work>*>> ready;
      for (std::size_t r = 0; r < ranks_.size(); ++r)
        for (std::vector<Work>* stream : {&ranks_[r].prefetches, &ranks_[r].computation, &ranks_[r].write_backs})
          if (!stream->empty() && stream->back().ready()) ready.emplace_back(r, stream);
      if (ready.empty()) break;
      // One stream is often far ahead of the others, or behind.
      if (random_() % 8 == 0) favoured_ = random_();
      auto* const stream = ready[(random_() % 4 ? favoured_ : random_()) % ready.size()].second;
      const Work work = std::move(stream->back());
      stream->pop_back();
      work.run();
    }
    for (const Rank& rank : ranks_)
      EXPECT_TRUE(rank.prefetches.empty() && rank.computation.empty() && rank.write_backs.empty())
          << "nobody can go on";
    return wrong_;
  }

 private:
  struct Work {
    std::function<bool()> ready;
    std::function<void()> run;
  };
  struct Rank {
    std::vector<Work> prefetches, computation, write_backs;    // the last one first
    std::int64_t prefetched = 0, written_back = 0, computed = 0;   // steps
    std::int64_t first_collectives = 0, second_collectives = 0;   // to which it has come
    std::map<std::int64_t, std::int64_t> memory;            // versions by slot
  };

  void enqueue(std::size_t r) {
    Rank& rank = ranks_[r];
    const auto always = [] { return true; };
    const auto written_back = [&rank](std::int64_t step) { return [&rank, step] { return rank.written_back > step; }; };
    for (std::int64_t s = 0; s < kSteps; ++s) {
      const Planned& plan = plans_[static_cast<std::size_t>(s)][r];
      const auto read = [this, &rank, &plan, s](bool early) {
        for (std::size_t i = 0; i < plan.rows.size(); ++i)
          if ((plan.source[i] == kFromHost) == early)
            wrong_ += (plan.source[i] < 0 ? host_[plan.rows[i]] : rank.memory[plan.source[i]]) !=
                      expected_.at({s, plan.rows[i]});
      };
      const auto bring_to_host = [this, &rank, &plan](std::size_t i) {
        host_[plan.rows[i]] = rank.memory[plan.target[i]];
      };
      rank.prefetches.push_back(
          {broken_ == Wait::kPrefetchForWriteBack ? always : std::function(written_back(s - kBufferSteps)),
           [&rank, read] {
             read(true);
             ++rank.prefetched;
           }});
      for (const WriteBack& each : plan.write_backs)
        rank.computation.push_back({always, [this, &rank, each] { host_[each.row] = rank.memory[each.slot]; }});
      rank.computation.push_back({always, [&rank] { ++rank.first_collectives; }});
      rank.computation.push_back({[this, &rank, s] {
                                    return rank.prefetched > s &&
                                           (broken_ == Wait::kFirstCollective || entered(&Rank::first_collectives, s));
                                  },
                                  [read] { read(false); }});
      rank.computation.push_back({always, [&rank, &plan, s] {
                                    for (std::size_t i = 0; i < plan.rows.size(); ++i)
                                      if (plan.leave[i] != RowDestination::kGradient)
                                        rank.memory[plan.target[i]] = s + 1;
                                    ++rank.second_collectives;
                                  }});
      rank.computation.push_back(
          {[this, s] { return broken_ == Wait::kSecondCollective || entered(&Rank::second_collectives, s); },
           [this, &plan, r, s] {
             for (std::size_t i = 0; i < plan.rows.size(); ++i)
               if (plan.leave[i] == RowDestination::kGradient && is_first(r, s, plan.rows[i]))
                 host_[plan.rows[i]] = s + 1;
           }});
      const bool waits = broken_ != Wait::kPublishForWriteBack;
      rank.computation.push_back({waits ? std::function(written_back(s - 1)) : always, [&plan, bring_to_host, &rank] {
                                    for (std::size_t i = 0; i < plan.rows.size(); ++i)
                                      if (plan.leave[i] == RowDestination::kPublishedBeforeSync) bring_to_host(i);
                                    ++rank.computed;
                                  }});
      for (std::size_t i = 0; i < plan.rows.size(); ++i)  // row by row: others see half of a write-back
        if (plan.leave[i] == RowDestination::kWriteBackBuffer)
          rank.write_backs.push_back(
              {[&rank, s] { return rank.computed > s; }, [bring_to_host, i] { bring_to_host(i); }});
      rank.write_backs.push_back({[&rank, s] { return rank.computed > s; }, [&rank] { ++rank.written_back; }});
    }
    for (std::vector<Work>* stream : {&rank.prefetches, &rank.computation, &rank.write_backs})
      std::ranges::reverse(*stream);
  }

  bool entered(std::int64_t Rank::*collectives, std::int64_t step) const {
    return std::ranges::all_of(ranks_, [&](const Rank& rank) { return rank.*collectives > step; });
  }

  bool is_first(std::size_t r, std::int64_t step, std::int64_t row) const {
    const auto& plans = plans_[static_cast<std::size_t>(step)];
    for (std::size_t other = 0; other < r; ++other)
      if (std::ranges::binary_search(plans[other].rows, row)) return false;
    return true;
  }

  const Plans& plans_;
  const Wait broken_;
  std::mt19937_64 random_;
  std::uint64_t favoured_ = 0;
  std::vector<Rank> ranks_;
  std::map<std::int64_t, std::int64_t> host_;                                // versions of host rows
  std::map<std::pair<std::int64_t, std::int64_t>, std::int64_t> expected_;  // that a step reads, by step and row
  int wrong_ = 0;
};

int wrong_reads(Wait broken, std::uint64_t seeds) {
  int wrong = 0;
  for (std::uint64_t seed = 0; seed < seeds; ++seed) {
    const Plans plans = random_plans(2 + static_cast<int>(seed % 3), seed % 2, seed);
    for (std::uint64_t order = 0; order < 4; ++order) wrong += Devices(plans, broken, 100 * seed + order).run();
  }
  return wrong;
}

TEST(SynchronisedRanks, EveryStepReadsTheNewestValues) { EXPECT_EQ(wrong_reads(Wait::kNone, 60), 0); }

TEST(SynchronisedRanks, EachWaitIsNeeded) {
  for (const Wait wait :
       {Wait::kPublishForWriteBack, Wait::kPrefetchForWriteBack, Wait::kFirstCollective, Wait::kSecondCollective})
    EXPECT_GT(wrong_reads(wait, 30), 0) << static_cast<int>(wait);
}

TEST(SynchronisedRanks, EachPartOfThePlanIsNeeded) {
  for (const Mutation mutation : {Mutation::kNothingPublishedBeforeSync, Mutation::kNothingLate}) {
    set_mutation(mutation);
    EXPECT_GT(wrong_reads(Wait::kNone, 30), 0) << static_cast<int>(mutation);
    set_mutation(Mutation::kNone);
  }
}

TEST(SynchronisedRanks, MostValuesAreWrittenBackDuringTheNextSteps) {
  std::int64_t written_back = 0, published_before_sync = 0;
  for (const auto& step : random_plans(2, false, 7))
    for (const Planned& plan : step) {
      written_back += std::ranges::count(plan.leave, RowDestination::kWriteBackBuffer);
      published_before_sync += std::ranges::count(plan.leave, RowDestination::kPublishedBeforeSync);
    }
  EXPECT_GT(written_back, published_before_sync);
  EXPECT_GT(published_before_sync, 0);
}

}  // namespace
}  // namespace frugal::testing::synchronised_ranks
