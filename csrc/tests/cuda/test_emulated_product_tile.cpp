// Tiles of products whose operands are given, run on a CPU, against sums in float64.
#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <vector>

#include "emulated_cuda.h"
#include "models/cuda/product_tile.cuh"
#include "random_floats.h"

namespace frugal::cuda {
namespace {

using testing::Floats, testing::random_floats;

// The same slab again and again.
template <bool kByDepth>
struct Operands {
  using Left = ProductTile::Share<ProductTile::kRows, kByDepth>;
  using Right = ProductTile::Share<ProductTile::kColumns, kByDepth>;
  int of_slab;
  const Floats &of_rows, &of_columns;

  static float4 four(const Floats& from, int index, int quad) {
    const float* const x = from.data() + index * ProductTile::kDepth + 4 * quad;
    return {x[0], x[1], x[2], x[3]};
  }
  void load(int) {}
  int depths() const { return of_slab; }
  float4 left(int k) const { return four(of_rows, Left::index(k), Left::quad(k)); }
  float4 right(int k) const { return four(of_columns, Right::index(k), Right::quad(k)); }
};

// The largest error of a tile whose slab has so many depths, 0 behind them; relative to the sum of absolute products.
template <bool kOnTensorCores, bool kByDepth>
double error_of(int depths) {
  std::mt19937 random(depths);
  Floats left = random_floats(ProductTile::kRows * ProductTile::kDepth, random);
  Floats right = random_floats(ProductTile::kColumns * ProductTile::kDepth, random);
  for (Floats* const of : {&left, &right})
    for (std::size_t i = 0; i < of->size(); ++i)
      if (static_cast<int>(i % ProductTile::kDepth) >= depths) (*of)[i] = 0.0f;
  Floats product(ProductTile::kRows * ProductTile::kColumns, NAN);
  emulation::launch(1, ProductTile::kThreads, 0, [&] {
    alignas(16) static ProductTile::Slab slabs[2];
    ProductTile::Sums sum;
    using Of = Operands<kByDepth>;
    Of operands{depths, left, right};
    if constexpr (kOnTensorCores) {
      ProductTile::fold<typename Of::Left, typename Of::Right>(slabs, 3, operands, sum);
    } else {
      ProductTile::Sums once;
      ProductTile::fold<typename Of::Left, typename Of::Right>(slabs, 1, operands, once);
      for (int slab = 0; slab < 3; ++slab) ProductTile::multiply<false>(slabs[0], depths, sum);
    }
    for (int i = 0; i < ProductTile::kMicroRows; ++i)
      for (int j = 0; j < ProductTile::kMicroColumns; ++j)
        product[ProductTile::row(i) * ProductTile::kColumns + ProductTile::column(j)] = sum.at(i, j);
  });
  double worst = 0;
  for (int row = 0; row < ProductTile::kRows; ++row)
    for (int column = 0; column < ProductTile::kColumns; ++column) {
      double sum = 0, size = 0;
      for (int d = 0; d < depths; ++d) {
        const double x = left[row * ProductTile::kDepth + d], y = right[column * ProductTile::kDepth + d];
        sum += 3 * x * y, size += 3 * std::abs(x * y);
      }
      const double error = std::abs(product[row * ProductTile::kColumns + column] - sum) / size;
      worst = error <= worst ? worst : error;  // NaN stays
    }
  return worst;
}

TEST(EmulatedProductTile, IsNearSumsInFloat64) {
  for (const int depths : {1, 8, 9, 16}) {
    EXPECT_LT((error_of<true, true>(depths)), 6e-7) << depths;
    EXPECT_LT((error_of<true, false>(depths)), 6e-7) << depths;
    EXPECT_LT((error_of<false, true>(depths)), 3e-7) << depths;
  }
}

}  // namespace
}  // namespace frugal::cuda
