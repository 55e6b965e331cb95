#include "table/numa.h"

#include <linux/mempolicy.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <sstream>
#include <stdexcept>

namespace frugal {

std::vector<int> parse_node_list(const std::string& list) {
  std::vector<int> nodes;
  std::istringstream parts(list);
  for (std::string part; std::getline(parts, part, ',');) {
    int first = -1, last = -1, end = 0;
    if (std::sscanf(part.c_str(), "%d-%d%n", &first, &last, &end) != 2) {
      if (std::sscanf(part.c_str(), "%d%n", &first, &end) != 1) end = -1;
      last = first;
    }
    if (end != static_cast<int>(part.size()) || first < 0 || last < first || last > 1 << 16)
      throw std::invalid_argument("not a list of NUMA nodes: '" + list + "'");
    for (int node = first; node <= last; ++node) nodes.push_back(node);
  }
  return nodes;
}

// The system call itself: libnuma would be a dependency for one function.
Interleaving interleave_pages(void* address, std::size_t bytes) {
  std::string list;
  std::getline(std::ifstream("/sys/devices/system/node/has_memory") >> std::ws, list);
  const std::vector<int> nodes = parse_node_list(list);
  if (nodes.size() < 2) return {};
  constexpr std::size_t kBits = 8 * sizeof(unsigned long);
  std::vector<unsigned long> mask(nodes.back() / kBits + 1);
  for (const int node : nodes) mask[node / kBits] |= 1ul << (node % kBits);
  if (syscall(SYS_mbind, address, bytes, MPOL_INTERLEAVE, mask.data(), mask.size() * kBits + 1, 0) != 0)
    return {1, std::strerror(errno)};
  return {static_cast<int>(nodes.size()), ""};
}

}  // namespace frugal
