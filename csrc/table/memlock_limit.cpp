#include <sys/resource.h>

#include "table/host_registration.h"

namespace frugal {

std::string memlock_limit_sentence() {
  rlimit limit{};
  if (getrlimit(RLIMIT_MEMLOCK, &limit) != 0) return "the memlock limit of this process is unknown";
  if (limit.rlim_cur == RLIM_INFINITY) return "the memlock limit of this process is unlimited";
  return "the memlock limit of this process is " + std::to_string(limit.rlim_cur >> 10) + " KiB (ulimit -l)";
}

}  // namespace frugal
