// Chooses the kernels for the processor at hand.
#include <cstring>

#include "models/similarity/similarity.h"

namespace frugal {

namespace baseline {
extern const Kernels table;
}
#if FRUGAL_HAS_AVX512
namespace avx512 {
extern const Kernels table;
}
#endif

const Kernels* kernels(const char* instruction_set) {
#if FRUGAL_HAS_AVX512
  const bool available = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") &&
                         __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
                         __builtin_cpu_supports("avx512cd");
  if (available && std::strcmp(instruction_set, "avx512") == 0) return &avx512::table;
#endif
  return std::strcmp(instruction_set, "baseline") == 0 ? &baseline::table : nullptr;
}

const Kernels& kernels() {
  static const Kernels& best = kernels("avx512") ? *kernels("avx512") : *kernels("baseline");
  return best;
}

}  // namespace frugal
