// Host memory that the CUDA driver provides. A device addresses it by pages of 2 MB, and memory that was registered by
// pages of 4 kB, of which its page tables hold too few for rows at random places: it reads and writes these at the rate
// of the bus in the one and at less than half of it in the other. A forked process does not have this memory.
#pragma once

#include <cstddef>
#include <cstdint>

namespace frugal {

class ManagedMemory {
 public:
  // Whether all devices that this process sees share such memory with the host while they work.
  static bool is_available();

  // Zeroed memory that stays in the host. Throws DeviceError.
  explicit ManagedMemory(std::int64_t bytes);
  ~ManagedMemory();
  ManagedMemory(const ManagedMemory&) = delete;
  ManagedMemory& operator=(const ManagedMemory&) = delete;

  char* data() const { return data_; }
  // From now on the device with this number reads and writes it over the bus. Throws DeviceError.
  void map_for(int device);

 private:
  char* data_ = nullptr;
  std::size_t bytes_;
};

}  // namespace frugal
