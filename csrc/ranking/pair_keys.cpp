#include "ranking/pair_keys.h"

#include <cmath>
#include <cstring>

#include "base/parallel/thread_pool.h"

namespace frugal {
namespace {

constexpr int kLanes = 8;
typedef float Floats __attribute__((vector_size(kLanes * 4)));
typedef double Doubles __attribute__((vector_size(kLanes * 8)));

// Up to kLanes floats as doubles, zeros behind them (zeros add nothing to any of the sums below).
inline Doubles load(const float* from, std::int64_t n) {
  Floats values = {};
  if (n >= kLanes) {
    std::memcpy(&values, from, sizeof values);
  } else {
    std::memcpy(&values, from, n * sizeof(float));
  }
  return __builtin_convertvector(values, Doubles);
}

inline Doubles absolute(Doubles x) {
  for (int lane = 0; lane < kLanes; ++lane) x[lane] = std::fabs(x[lane]);
  return x;
}

inline Doubles square_root(Doubles x) {
  for (int lane = 0; lane < kLanes; ++lane) x[lane] = std::sqrt(x[lane]);
  return x;
}

inline double total(Doubles x) { return ((x[0] + x[1]) + (x[2] + x[3])) + ((x[4] + x[5]) + (x[6] + x[7])); }

}  // namespace

double pair_key(Operation operation, const float* a, const float* b, std::int64_t dim) {
  Doubles sum = {};
  switch (operation) {
    case Operation::kDot:
      for (std::int64_t k = 0; k < dim; k += kLanes) sum += load(a + k, dim - k) * load(b + k, dim - k);
      return total(sum);
    case Operation::kL2:
      for (std::int64_t k = 0; k < dim; k += kLanes) {
        Doubles difference = load(a + k, dim - k) - load(b + k, dim - k);
        sum += difference * difference;
      }
      return -total(sum);
    case Operation::kL1:
      for (std::int64_t k = 0; k < dim; k += kLanes) sum += absolute(load(a + k, dim - k) - load(b + k, dim - k));
      return -total(sum);
    case Operation::kModulus: {
      const std::int64_t half = dim / 2;
      for (std::int64_t k = 0; k < half; k += kLanes) {
        Doubles real = load(a + k, half - k) - load(b + k, half - k);
        Doubles imaginary = load(a + half + k, half - k) - load(b + half + k, half - k);
        sum += square_root(real * real + imaginary * imaginary);
      }
      return -total(sum);
    }
  }
  __builtin_unreachable();
}

void pair_keys(Operation operation, const RowsView& queries, const RowsView& table, const std::int64_t* query_ids,
               const std::int64_t* row_ids, std::int64_t count, double* keys) {
  default_pool()->parallel_for(count, 256, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      keys[i] = pair_key(operation, queries.row(query_ids[i]), table.row(row_ids[i]), table.dim);
    }
  });
}

}  // namespace frugal
