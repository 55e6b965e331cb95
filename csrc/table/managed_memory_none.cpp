#include "base/device/device_error.h"
#include "table/managed_memory.h"

namespace frugal {

bool ManagedMemory::is_available() { return false; }

ManagedMemory::ManagedMemory(std::int64_t bytes) : bytes_(static_cast<std::size_t>(bytes)) { refuse_cuda(); }

ManagedMemory::~ManagedMemory() = default;

void ManagedMemory::map_for(int) { refuse_cuda(); }

}  // namespace frugal
