// The numbers that tables begin with: functions of (seed, stream, index), so that any part of a stream can be made
// alone, by any thread, with the same bits.
#pragma once

#include <cstdint>

namespace frugal {

// Uniform in [low, high).
class CounterUniform {
 public:
  CounterUniform(std::uint64_t seed, std::uint64_t stream, float low, float high)
      : seed_(seed), stream_(stream), low_(low), width_(high - low) {}

  // values[k] = number `first + k` of the stream.
  void fill(float* values, std::uint64_t first, std::int64_t count) const;

 private:
  std::uint64_t seed_, stream_;
  float low_, width_;
};

// Normal, by the method of Box and Muller from two words each, in float64 that is rounded once.
class CounterNormal {
 public:
  CounterNormal(std::uint64_t seed, std::uint64_t stream, double mean, double deviation)
      : seed_(seed), stream_(stream), mean_(mean), deviation_(deviation) {}

  // values[k] = number `first + k` of the stream.
  void fill(float* values, std::uint64_t first, std::int64_t count) const;

 private:
  std::uint64_t seed_, stream_;
  double mean_, deviation_;
};

}  // namespace frugal
