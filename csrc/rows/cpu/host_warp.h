// A warp on the CPU: one thread that holds all 32 lanes. See rows/row_program.h.
#pragma once

#include <cmath>
#include <cstdint>

namespace frugal {

struct HostWarp {
  static constexpr int kLanes = 32, kVectors = 1;
  struct Lanes {
    alignas(64) float at[kLanes];
  };

  static Lanes zero() { return Lanes{}; }

  static Lanes load(const float* from, int active) {
    Lanes lanes{};
    if (active == kLanes)
      for (int k = 0; k < kLanes; ++k) lanes.at[k] = from[k];
    else
      for (int k = 0; k < active; ++k) lanes.at[k] = from[k];
    return lanes;
  }
  static void store(float* to, const Lanes& lanes, int active) {
    if (active == kLanes)
      for (int k = 0; k < kLanes; ++k) to[k] = lanes.at[k];
    else
      for (int k = 0; k < active; ++k) to[k] = lanes.at[k];
  }
  static void store_one(float* to, float value) { *to = value; }

  static void add(Lanes& sum, const Lanes& other) {
    for (int k = 0; k < kLanes; ++k) sum.at[k] += other.at[k];
  }
  static void add_squares(Lanes& sum, const float* x, int active) {
    if (active == kLanes)
      for (int k = 0; k < kLanes; ++k) sum.at[k] += x[k] * x[k];
    else
      for (int k = 0; k < active; ++k) sum.at[k] += x[k] * x[k];
  }
  static void add_from(Lanes& sum, int first, int active) {
    for (int k = 0; k < active; ++k) sum.at[k] += sum.at[first + k];
  }
  static float broadcast(const Lanes& lanes, int lane) { return lanes.at[lane]; }
  using Divisor = float;
  static Divisor divisor(float value) { return value; }
  // values += (negative_rate * gradient) / deviation.
  static void descend(Lanes (&values)[kVectors], const Lanes (&gradient)[kVectors], float negative_rate,
                      Divisor deviation) {
    for (int v = 0; v < kVectors; ++v)
      for (int k = 0; k < kLanes; ++k) values[v].at[k] += negative_rate * gradient[v].at[k] / deviation;
  }
  static float square_root(float x) { return std::sqrt(x); }
};

}  // namespace frugal
