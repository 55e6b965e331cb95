#include "ranking/ranking.h"

#include <algorithm>
#include <mutex>
#include <tuple>
#include <utility>

#include "base/parallel/thread_pool.h"
#include "ranking/tile_loop.h"

namespace frugal {
namespace {

// One thread's share of the queries.
class Ranker {
 public:
  Ranker(const RankingTask& task, std::int64_t* better)
      : task_(task),
        better_(better),
        kernel_(tile_kernel()),
        loop_(task.operation, task.queries, task.table, task.bias) {}

  void rank(std::int64_t begin, std::int64_t end, Candidates candidates) {
    next_excluded_.assign(task_.excluded.pointers + begin, task_.excluded.pointers + end);
    sort(candidates);
    loop_.run(begin, end, candidates,
              [&](std::int64_t query, float* keys, std::int64_t first, std::int64_t rows, std::int64_t padded) {
                exclude(query, next_excluded_[query - begin], keys, candidates, first, rows);
                compare(query, keys, candidates, first, rows, padded);
              });
  }

  std::vector<UncertainPair> take_uncertain() { return std::move(uncertain_); }

 private:
  // Where each id of a list of candidates stands; ids may repeat.
  void sort(Candidates candidates) {
    places_.clear();
    for (std::int64_t i = 0; candidates.ids && i < candidates.count; ++i) places_.push_back({candidates.ids[i], i});
    std::sort(places_.begin(), places_.end());
  }

  // `next` is the first excluded item not passed yet; blocks of the whole table come in ascending order.
  void exclude(std::int64_t query, std::int64_t& next, float* keys, Candidates candidates, std::int64_t first,
               std::int64_t rows) const {
    const std::int64_t end = task_.excluded.pointers[query + 1];
    if (candidates.ids) {
      for (std::int64_t i = task_.excluded.pointers[query]; i < end; ++i) {
        const std::int64_t id = task_.excluded.items[i];
        for (auto place = std::lower_bound(places_.begin(), places_.end(), std::pair(id, first));
             place != places_.end() && *place < std::pair(id, first + rows); ++place) {
          keys[place->second - first] = TileLoop::kNever;
        }
      }
    } else {
      for (; next < end && task_.excluded.items[next] < first + rows; ++next) {
        keys[task_.excluded.items[next] - first] = TileLoop::kNever;
      }
    }
  }

  void compare(std::int64_t query, const float* keys, Candidates candidates, std::int64_t first, std::int64_t rows,
               std::int64_t padded) {
    for (std::int64_t i = task_.positives[query]; i < task_.positives[query + 1]; ++i) {
      std::int64_t above_low, above_high;
      kernel_.count(keys, padded, task_.low[i], task_.high[i], &above_low, &above_high);
      better_[i] += above_high;
      if (above_low == above_high) continue;
      for (std::int64_t j = 0; j < rows; ++j) {
        if (keys[j] >= task_.low[i] && !(keys[j] > task_.high[i])) uncertain_.push_back({i, candidates.id(first + j)});
      }
    }
  }

  const RankingTask& task_;
  std::int64_t* const better_;  // entries of this thread's queries
  const TileKernel& kernel_;
  TileLoop loop_;
  std::vector<std::int64_t> next_excluded_;
  std::vector<std::pair<std::int64_t, std::int64_t>> places_;  // (id, place), ascending
  std::vector<UncertainPair> uncertain_;
};

}  // namespace

std::vector<UncertainPair> count_better(const RankingTask& task, std::int64_t* better) {
  const std::int64_t queries = task.queries.rows;
  std::fill(better, better + task.positives[queries], 0);
  std::vector<UncertainPair> uncertain;
  std::mutex mutex;
  const std::int64_t group = task.candidates ? task.group : tile_kernel().strip_queries;
  default_pool()->parallel_for((queries + group - 1) / group, 1, [&](std::int64_t begin, std::int64_t end) {
    Ranker ranker(task, better);
    if (task.candidates) {
      for (std::int64_t g = begin; g < end; ++g) {
        ranker.rank(g * group, std::min(queries, (g + 1) * group),
                    {task.candidates + g * task.candidate_count, task.candidate_count});
      }
    } else {
      ranker.rank(begin * group, std::min(queries, end * group), {nullptr, task.table.rows});
    }
    std::vector<UncertainPair> mine = ranker.take_uncertain();
    std::lock_guard lock(mutex);
    uncertain.insert(uncertain.end(), mine.begin(), mine.end());
  });
  std::sort(uncertain.begin(), uncertain.end(), [](const UncertainPair& a, const UncertainPair& b) {
    return std::tie(a.threshold, a.row) < std::tie(b.threshold, b.row);
  });
  return uncertain;
}

}  // namespace frugal
