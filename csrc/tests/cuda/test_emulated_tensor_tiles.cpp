// Tiles of products on tensor cores, run on a CPU, against sums in float64.
#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <string>
#include <vector>

#include "emulated_cuda.h"
#include "step/cuda/tensor_tiles.cuh"

namespace frugal::cuda {
namespace {

struct Rows {
  std::vector<float> memory;
  Operand operand;

  // A pitch of whole words, as tiles want it; what lies beyond `depths` must not be used.
  Rows(bool depth_major, int indices, int depths, std::mt19937& random) {
    std::normal_distribution<float> normal;
    const int rows = depth_major ? depths : indices, columns = depth_major ? indices : depths;
    const int pitch = (columns + 3) / 4 * 4;
    memory.resize(rows * pitch + 4);
    float* data = memory.data();
    while (reinterpret_cast<std::uintptr_t>(data) % 16 != 0) ++data;
    for (int row = 0; row < rows; ++row)
      for (int column = 0; column < pitch; ++column)
        data[row * pitch + column] = column < columns ? normal(random) : NAN;
    operand = {data, pitch, pitch, rows};
  }
  float at(bool depth_major, int index, int depth) const {
    return operand.data[depth_major ? depth * operand.stride + index : index * operand.stride + depth];
  }
};

// At most; relative to the sum of absolute products, `weights` to the sum of a left operand's absolute numbers.
struct Errors {
  double results = 0, weights = 0;
};

// All tiles of the product of rows x depths and depths x columns, and sums of the left operand's numbers.
template <int kPasses, typename S, bool kLeftDepthMajor, bool kRightDepthMajor>
Errors errors_of(int rows, int columns, int depths) {
  using T = TensorTile<kPasses, S, kLeftDepthMajor, kRightDepthMajor>;
  std::mt19937 random(rows + columns + depths);
  const Rows left(kLeftDepthMajor, rows, depths, random), right(kRightDepthMajor, columns, depths, random);
  std::vector<float> product(rows * columns, NAN), sums(rows);
  const int across = (columns + T::kColumns - 1) / T::kColumns, down = (rows + T::kRows - 1) / T::kRows;
  emulation::launch(across * down, T::kThreads, sizeof(float) * T::kSharedFloats, [&] {
    const int first_row = blockIdx.x / across * T::kRows, first_column = blockIdx.x % across * T::kColumns;
    typename T::Sums sum = {};
    float* shared = emulation::dynamic_shared();
    T::template fold<true>(shared, left.operand, first_row, right.operand, first_column, depths, sum, sum);
    for (int i = 0; i < T::kMicroRows; ++i)
      if (first_column == 0 && first_row + T::row(i) < rows)
        sums[first_row + T::row(i)] = T::left_sum(shared, T::row(i));
    for (int i = 0; i < T::kMicroRows; ++i)
      for (int j = 0; j < T::kMicroColumns; ++j) {
        const int row = first_row + T::row(i), column = first_column + T::column(i, j);
        if (row < rows && column < columns) product[row * columns + column] = sum[i][j];
      }
  });
  Errors worst;
  for (int row = 0; row < rows; ++row) {
    double sum = 0, size = 0;
    for (int d = 0; d < depths; ++d) {
      const double x = left.at(kLeftDepthMajor, row, d);
      sum += x, size += std::abs(x);
    }
    worst.weights = std::fmax(worst.weights, std::abs(sums[row] - sum) / size);
    for (int column = 0; column < columns; ++column) {
      sum = size = 0;
      for (int d = 0; d < depths; ++d) {
        const double x = left.at(kLeftDepthMajor, row, d), y = right.at(kRightDepthMajor, column, d);
        sum += x * y, size += std::abs(x * y);
      }
      const double error = std::abs(product[row * columns + column] - sum) / size;
      worst.results = error <= worst.results ? worst.results : error;  // NaN stays
    }
  }
  return worst;
}

template <typename S, bool kLeftDepthMajor, bool kRightDepthMajor>
void expect_near() {
  struct Sizes {
    int rows, columns, depths;
  };
  // Less than an octet; more than a tile of each; whole tiles; one depth.
  for (const Sizes& at : {Sizes{3, 5, 7}, Sizes{70, 37, 75}, Sizes{64, 32, 64}, Sizes{33, 65, 1}, Sizes{1, 129, 130}}) {
    SCOPED_TRACE(std::to_string(at.rows) + " x " + std::to_string(at.columns) + " x " + std::to_string(at.depths));
    const Errors three = errors_of<3, S, kLeftDepthMajor, kRightDepthMajor>(at.rows, at.columns, at.depths);
    const Errors one = errors_of<1, S, kLeftDepthMajor, kRightDepthMajor>(at.rows, at.columns, at.depths);
    EXPECT_LE(three.results, 0x1p-21);
    EXPECT_LE(three.weights, 0x1p-21);
    EXPECT_EQ(one.weights, three.weights);
    EXPECT_LE(one.results, 0x1p-10);
    EXPECT_GE(one.results, 0x1p-16);  // otherwise nothing was rounded
  }
}

template <typename S>
void expect_near_in_all_orders() {
  expect_near<S, false, false>();
  expect_near<S, false, true>();
  expect_near<S, true, false>();
  expect_near<S, true, true>();
}

TEST(EmulatedTensorTiles, AreNearSumsInFloat64) {
  expect_near_in_all_orders<TensorShape<2, 4, 1, 1, 4, 64, 3, 2>>();
  expect_near_in_all_orders<TensorShape<2, 4, 1, 1, 2, 32, 4, 4>>();
  expect_near_in_all_orders<TensorShape<2, 4, 4, 2, 1, 32, 4, 1>>();
  expect_near_in_all_orders<TensorShape<2, 5, 2, 1, 2, 32, 3, 3>>();
  expect_near_in_all_orders<TensorShape<2, 7, 2, 1, 2, 32, 3, 2>>();
  expect_near_in_all_orders<TensorShape<1, 5, 2, 2, 1, 32, 2, 1>>();  // fewer octets than go together
}

}  // namespace
}  // namespace frugal::cuda
