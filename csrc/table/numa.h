// Spreading a table over the memory of all NUMA nodes, so that every device and flush thread sees the same mean
// bandwidth.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace frugal {

// "0-1,4" -> {0, 1, 4}: the kernel's format for lists of nodes. Throws std::invalid_argument for anything else.
std::vector<int> parse_node_list(const std::string& list);

struct Interleaving {
  int nodes = 1;        // over how many the pages are spread from now on; 1: there is only one, or it was refused
  std::string why_not;  // the system's reason, if it was refused
};

// Asks for pages of [address, address + bytes) that are not there yet to come from all nodes in turn. address: on a
// page. A wish: speed depends on it, nothing else.
Interleaving interleave_pages(void* address, std::size_t bytes);

}  // namespace frugal
