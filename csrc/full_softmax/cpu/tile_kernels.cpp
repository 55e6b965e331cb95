#include "full_softmax/cpu/tile_kernels.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "base/half.h"
#include "base/parallel/thread_pool.h"
#include "base/random/dropout.h"
#include "models/row_loss.h"
#include "models/similarity/softmax_row.h"
#include "rows/cpu/host_warp.h"
#include "rows/summed_row.h"
#include "table/mean_square.h"

namespace frugal::cpu {
namespace {

using namespace FRUGAL_ISA;

constexpr std::int64_t kQueriesOfTask = 8;

float unit_of(const ScoreTile& tile) { return tile.unit ? *tile.unit : 1.0f; }

ScoreRow row_of(const ScoreTile& tile, std::int64_t i) {
  return {tile.scores + i * tile.stride, whole_vectors(tile.columns), unit_of(tile), tile.bound};
}

// Calls body(position, column) for each target of the query that lies in the tile.
template <typename Body>
void for_targets(const ScoreTile& tile, const SoftmaxTargets& targets, std::int64_t query, Body body) {
  const std::int64_t *begin = targets.ids + targets.begin[query], *end = targets.ids + targets.end[query];
  for (const std::int64_t* id = std::lower_bound(begin, end, tile.first); id < end && *id < tile.first + tile.columns;
       ++id)
    body(id - begin, *id - tile.first);
}

void add_row(const ScoreTile& tile, const SoftmaxTargets& targets, const SoftmaxSums& sums, std::int64_t i) {
  float* const row = tile.scores + i * tile.stride;
  const std::int64_t vectors = whole_vectors(tile.columns);
  const float unit = unit_of(tile);
  float wanted = 0.0f;
  for_targets(tile, targets, i, [&](std::int64_t, std::int64_t column) {
    const float x = unit * row[column];
    wanted += tile.bound > 0.0f ? std::clamp(x, -tile.bound, tile.bound) : x;
  });
  if (targets.on) wanted *= targets.on[i];
  if (targets.off && targets.off[i] != 0.0f) {
    const Vec units = broadcast(unit);
    Vec sum = broadcast(0.0f);
    for (std::int64_t j = tile.columns; j < vectors * kLanes; ++j) row[j] = 0.0f;
    for (std::int64_t v = 0; v < vectors; ++v) sum = sum + bounded(units * load(row + v * kLanes), tile.bound);
    wanted += targets.off[i] * fold_sum(sum);
  }
  sums.wanted[i] += wanted;

  for (std::int64_t j = tile.columns; j < vectors * kLanes; ++j) row[j] = kNoScore;
  const ExponentialSum sum = kernels().sum_exponentials(row_of(tile, i), sums.largest[i]);
  sums.total[i] = sums.total[i] * sum.of_before + sum.total;
  sums.largest[i] = sum.largest;
}

void row_slopes(const ScoreTile& tile, const SoftmaxTargets& targets, float log_sum, float scale, std::int64_t i,
                std::vector<float>& raw) {
  float* const row = tile.scores + i * tile.stride;
  const float unit = unit_of(tile);
  raw.clear();
  for_targets(tile, targets, i, [&](std::int64_t, std::int64_t column) { raw.push_back(unit * row[column]); });
  kernels().softmax_slopes(row_of(tile, i), log_sum, scale, targets.off ? targets.off[i] : 0.0f);
  std::size_t next = 0;
  const float on = scale * (targets.on ? targets.on[i] : 1.0f);
  for_targets(tile, targets, i, [&](std::int64_t, std::int64_t column) {
    const float x = raw[next++];
    if (!(tile.bound > 0.0f && std::fabs(x) > tile.bound)) row[column] -= on;
  });
}

// A row of floats becomes one of 16-bit numbers, each of which is written where floats have been read.
void narrow_row(float* row, std::int64_t columns, const SlopeForm& form) {
  for (std::int64_t j = 0; j < form.columns(columns); ++j) {
    const std::uint16_t half = Half::round_to_nearest(j < columns ? row[j] : 0.0f);
    std::memcpy(reinterpret_cast<char*>(row) + j * static_cast<std::int64_t>(sizeof half), &half, sizeof half);
  }
}

}  // namespace

void add_tile(const ScoreTile& tile, const SoftmaxTargets& targets, const SoftmaxSums& sums, std::int64_t part) {
  default_pool()->parallel_for(tile.rows, kQueriesOfTask, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i)
      for (std::int64_t at = 0; at < tile.columns; at += part) {
        ScoreTile columns = tile;
        columns.scores += at, columns.first += at, columns.columns = std::min(part, tile.columns - at);
        add_row(columns, targets, sums, i);
      }
  });
}

void tile_slopes(const ScoreTile& tile, const SoftmaxTargets& targets, const float* log_sum, const float* scale,
                 const SlopeForm& form) {
  default_pool()->parallel_for(tile.rows, kQueriesOfTask, [&](std::int64_t begin, std::int64_t end) {
    std::vector<float> raw;
    for (std::int64_t i = begin; i < end; ++i) {
      row_slopes(tile, targets, log_sum[i], scale ? scale[i] : form.factor, i, raw);
      if (form.element != RowElement::kFloat32) narrow_row(tile.scores + i * tile.stride, tile.columns, form);
    }
  });
}

void update_tile(const TableRows& table, std::int64_t first, std::int64_t count, const float* gradients,
                 std::int64_t stride, const std::int32_t* slot, float* aside, const UpdateRule& rule) {
  const int power = sum_level_power(table.dim / kSumPartials);
  default_pool()->parallel_for(count, kRowsPerTask, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t j = begin; j < end; ++j) {
      const float* const gradient = gradients + j * stride;
      if (slot[first + j] >= 0) {
        const float unit = rule.unit ? *rule.unit : 1.0f;
        float* const to = aside + slot[first + j] * table.dim;
        std::transform(gradient, gradient + table.dim, to, [unit](float x) { return unit * x; });
        continue;
      }
      float* const row = table.rows + (first + j) * table.stride;
      update_from_sum<HostWarp, 1>(row, row, gradient, table.dim, rule, power, 0);
    }
  });
}

void update_rows(const TableRows& table, const std::int64_t* ids, const std::int32_t* used, const float* gradients,
                 const UpdateRule& rule) {
  const int power = sum_level_power(table.dim / kSumPartials);
  default_pool()->parallel_for(*used, kRowsPerTask, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t u = begin; u < end; ++u) {
      float* const row = table.rows + ids[u] * table.stride;
      update_from_sum<HostWarp, 1>(row, row, gradients + u * table.dim, table.dim, rule, power, 0);
    }
  });
}

void drop(const Dropout& dropout, std::int64_t rows, std::int64_t dim, std::int64_t stride, float* values) {
  const std::uint32_t limit = dropout_limit(dropout.rate);
  const float kept = 1.0f / (1.0f - dropout.rate);
  const std::int64_t blocks = (dim + 3) / 4;
  default_pool()->parallel_for(rows, kRowsPerTask, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i)
      for (std::int64_t block = 0; block < blocks; ++block) {
        const PhiloxWords words = dropout_words(dropout.seed, *dropout.step, dropout.part,
                                                static_cast<std::uint64_t>((dropout.first + i) * blocks + block));
        float* const x = values + i * stride + 4 * block;
        for (std::int64_t k = 0; k < std::min<std::int64_t>(4, dim - 4 * block); ++k)
          x[k] = words.at[k] < limit ? 0.0f : x[k] * kept;
      }
  });
}

}  // namespace frugal::cpu
