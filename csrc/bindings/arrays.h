// NumPy arrays that own what C++ made.
#pragma once

#include <nanobind/ndarray.h>

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

}  // namespace frugal
