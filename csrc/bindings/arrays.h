// NumPy arrays of what C++ made.
#pragma once

#include <nanobind/ndarray.h>

#include <cstdint>
#include <memory>
#include <vector>

namespace frugal {

// Hands the vector's memory to a new one-dimensional NumPy array.
template <class T>
nanobind::ndarray<nanobind::numpy, T, nanobind::ndim<1>> to_numpy(std::vector<T> values) {
  auto owned = std::make_unique<std::vector<T>>(std::move(values));
  T* const data = owned->data();
  const std::size_t shape[1] = {owned->size()};
  nanobind::capsule owner(owned.get(), [](void* vector) noexcept { delete static_cast<std::vector<T>*>(vector); });
  owned.release();
  return nanobind::ndarray<nanobind::numpy, T, nanobind::ndim<1>>(data, 1, shape, owner);
}

// A read-only NumPy view of `count` numbers, `stride` elements apart; the array keeps `owner` alive.
template <class T>
nanobind::object numpy_view(const T* data, std::size_t count, nanobind::handle owner, std::int64_t stride = 1) {
  const std::size_t shape[] = {count};
  const std::int64_t strides[] = {stride};
  return nanobind::cast(nanobind::ndarray<nanobind::numpy, const T, nanobind::ndim<1>>(data, 1, shape, owner, strides));
}

}  // namespace frugal
