#include "ranking/best_rows.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <mutex>
#include <tuple>

#include "base/parallel/thread_pool.h"
#include "ranking/tile_loop.h"

namespace frugal {
namespace {

struct Scored {
  float key;
  std::int64_t row;
};

// The best rows of one query so far. Rows come in; from time to time the rows that cannot be among the best go.
class Shortlist {
 public:
  float threshold() const { return threshold_; }

  void add(Scored scored, const BestRowsTask& task, std::int64_t query) {
    rows_.push_back(scored);
    if (rows_.size() >= room_) shorten(task, query);
  }

  // Keeps the rows within the slack of the k-th best.
  void shorten(const BestRowsTask& task, std::int64_t query) {
    const std::size_t count = static_cast<std::size_t>(task.count);
    if (rows_.size() > count) {
      auto kth = rows_.begin() + (count - 1);
      std::nth_element(rows_.begin(), kth, rows_.end(), [](Scored a, Scored b) { return a.key > b.key; });
      const float slack = task.slack[query] + task.relative_slack * std::fabs(kth->key);
      threshold_ = std::nextafter(kth->key - slack, TileLoop::kNever);
      const auto kept = std::remove_if(rows_.begin(), rows_.end(), [&](Scored s) { return s.key < threshold_; });
      rows_.erase(kept, rows_.end());
    }
    room_ = std::max<std::size_t>(2 * rows_.size(), 2 * count + 32);
  }

  const std::vector<Scored>& rows() const { return rows_; }

 private:
  std::vector<Scored> rows_;
  std::size_t room_ = 0;  // the first row sizes it
  float threshold_ = TileLoop::kNever;
};

}  // namespace

std::vector<FoundRow> best_rows(const BestRowsTask& task) {
  std::vector<FoundRow> result;
  std::mutex mutex;
  const std::int64_t queries = task.queries.rows, strip = tile_kernel().strip_queries;
  default_pool()->parallel_for((queries + strip - 1) / strip, 1, [&](std::int64_t begin, std::int64_t end) {
    const std::int64_t first_query = begin * strip, last_query = std::min(queries, end * strip);
    std::vector<Shortlist> shortlists(last_query - first_query);
    TileLoop loop(task.operation, task.queries, task.table, task.bias);
    const TileKernel& kernel = tile_kernel();
    loop.run(first_query, last_query, {nullptr, task.table.rows},
             [&](std::int64_t query, const float* keys, std::int64_t first, std::int64_t rows, std::int64_t padded) {
               Shortlist& shortlist = shortlists[query - first_query];
               std::int64_t interesting, unused;
               kernel.count(keys, padded, shortlist.threshold(), shortlist.threshold(), &interesting, &unused);
               if (interesting == 0) return;
               for (std::int64_t j = 0; j < rows; ++j) {
                 if (keys[j] >= shortlist.threshold()) shortlist.add({keys[j], first + j}, task, query);
               }
             });
    std::vector<FoundRow> mine;
    for (std::int64_t query = first_query; query < last_query; ++query) {
      Shortlist& shortlist = shortlists[query - first_query];
      shortlist.shorten(task, query);
      for (const Scored& scored : shortlist.rows()) mine.push_back({query, scored.row});
    }
    std::lock_guard lock(mutex);
    result.insert(result.end(), mine.begin(), mine.end());
  });
  std::sort(result.begin(), result.end(), [](const FoundRow& a, const FoundRow& b) {
    return std::tie(a.query, a.row) < std::tie(b.query, b.row);
  });
  return result;
}

}  // namespace frugal
