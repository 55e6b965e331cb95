#include "evaluation/ranking.h"

#include <algorithm>
#include <limits>
#include <mutex>
#include <tuple>

#include "evaluation/tile_kernel.h"
#include "parallel/thread_pool.h"

namespace frugal {
namespace {

constexpr std::int64_t kBlockBytes = 512 * 1024;   // packed rows at a time: half of a usual second-level cache
constexpr std::int64_t kMostRows = 512;            // the tile of a strip must stay in the first-level cache
constexpr std::int64_t kQueriesAtOnce = 8192;      // packed queries of one thread; amortizes the packing of rows
constexpr float kNever = -std::numeric_limits<float>::infinity();

std::int64_t round_up(std::int64_t value, std::int64_t to) { return (value + to - 1) / to * to; }

// The rows one pass looks at: all of the table, or the ids of a list.
struct Candidates {
  const std::int64_t* ids;  // or null
  std::int64_t count;

  std::int64_t id(std::int64_t index) const { return ids ? ids[index] : index; }
};

// Packs rows [first, first + count) into strips of `strip`, element by element; missing rows of the last strip are zero.
template <typename RowOf>
void pack(std::int64_t count, std::int64_t dim, std::int64_t strip, float* to, RowOf&& row_of) {
  for (std::int64_t first = 0; first < count; first += strip, to += strip * dim) {
    const std::int64_t here = std::min(strip, count - first);
    for (std::int64_t i = 0; i < here; ++i) {
      const float* row = row_of(first + i);
      for (std::int64_t k = 0; k < dim; ++k) to[k * strip + i] = row[k];
    }
    for (std::int64_t k = 0; here < strip && k < dim; ++k) std::fill(to + k * strip + here, to + (k + 1) * strip, 0.0f);
  }
}

// One thread's buffers and its loop over blocks of candidates and strips of queries.
class Ranker {
 public:
  Ranker(const RankingTask& task, std::int64_t* better) : task_(task), better_(better), kernel_(tile_kernel()) {
    const std::int64_t row_bytes = task.table.dim * static_cast<std::int64_t>(sizeof(float));
    const std::int64_t fitting = kBlockBytes / std::max<std::int64_t>(row_bytes, 1) / kernel_.strip_rows;
    block_rows_ = std::clamp(fitting * kernel_.strip_rows, kernel_.strip_rows, kMostRows);
    packed_rows_.resize(block_rows_ * task.table.dim);
    tile_.resize(block_rows_ * kernel_.strip_queries);
  }

  void rank(std::int64_t begin, std::int64_t end, Candidates candidates) {
    for (std::int64_t first = begin; first < end; first += kQueriesAtOnce) {
      rank_at_once(first, std::min(end, first + kQueriesAtOnce), candidates);
    }
  }

  std::vector<UncertainPair> take_uncertain() { return std::move(uncertain_); }

 private:
  void rank_at_once(std::int64_t begin, std::int64_t end, Candidates candidates) {
    const std::int64_t dim = task_.table.dim;
    packed_queries_.resize(round_up(end - begin, kernel_.strip_queries) * dim);
    pack(end - begin, dim, kernel_.strip_queries, packed_queries_.data(),
         [&](std::int64_t i) { return task_.queries.row(begin + i); });
    next_excluded_.assign(task_.excluded.pointers + begin, task_.excluded.pointers + end);
    for (std::int64_t first = 0; first < candidates.count; first += block_rows_) {
      const std::int64_t rows = std::min(block_rows_, candidates.count - first);
      const std::int64_t padded = round_up(rows, kernel_.strip_rows);
      pack(rows, dim, kernel_.strip_rows, packed_rows_.data(),
           [&](std::int64_t i) { return task_.table.row(candidates.id(first + i)); });
      const float* strip = packed_queries_.data();
      for (std::int64_t query = begin; query < end; query += kernel_.strip_queries, strip += dim * kernel_.strip_queries) {
        compute_tile(strip, padded);
        const std::int64_t queries = std::min(kernel_.strip_queries, end - query);
        for (std::int64_t i = 0; i < queries; ++i) {
          float* keys = tile_.data() + i * padded;
          finish_keys(keys, candidates, first, rows, padded);
          exclude(query + i, next_excluded_[query + i - begin], keys, candidates, first, rows);
          compare(query + i, keys, candidates, first, rows, padded);
        }
      }
    }
  }

  void compute_tile(const float* strip, std::int64_t padded) {
    const TileFunction function = task_.operation == Operation::kL1        ? kernel_.l1
                                  : task_.operation == Operation::kModulus ? kernel_.modulus
                                                                           : kernel_.dot;
    function(strip, packed_rows_.data(), task_.table.dim, padded, tile_.data());
  }

  void finish_keys(float* keys, Candidates candidates, std::int64_t first, std::int64_t rows, std::int64_t padded) const {
    if (task_.bias && candidates.ids) {
      for (std::int64_t i = 0; i < rows; ++i) keys[i] += task_.bias[candidates.ids[first + i]];
    } else if (task_.bias) {
      for (std::int64_t i = 0; i < rows; ++i) keys[i] += task_.bias[first + i];
    }
    std::fill(keys + rows, keys + padded, kNever);
  }

  // `next` is the first excluded item not passed yet; blocks of the whole table come in ascending order.
  void exclude(std::int64_t query, std::int64_t& next, float* keys, Candidates candidates, std::int64_t first,
               std::int64_t rows) const {
    const std::int64_t* begin = task_.excluded.items + task_.excluded.pointers[query];
    const std::int64_t* end = task_.excluded.items + task_.excluded.pointers[query + 1];
    if (begin == end) return;
    if (candidates.ids) {
      for (std::int64_t i = 0; i < rows; ++i) {
        if (std::binary_search(begin, end, candidates.ids[first + i])) keys[i] = kNever;
      }
    } else {
      for (; next < task_.excluded.pointers[query + 1] && task_.excluded.items[next] < first + rows; ++next) {
        keys[task_.excluded.items[next] - first] = kNever;
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
  std::int64_t block_rows_;
  std::vector<float> packed_rows_;
  std::vector<float> packed_queries_;
  std::vector<float> tile_;
  std::vector<std::int64_t> next_excluded_;
  std::vector<UncertainPair> uncertain_;
};

}  // namespace

std::vector<UncertainPair> count_better(const RankingTask& task, std::int64_t* better) {
  const std::int64_t queries = task.queries.rows;
  std::fill(better, better + task.positives[queries], 0);
  std::vector<UncertainPair> uncertain;
  std::mutex mutex;
  const std::int64_t group = task.candidates ? task.group : tile_kernel().strip_queries;
  default_pool().parallel_for((queries + group - 1) / group, 1, [&](std::int64_t begin, std::int64_t end) {
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
