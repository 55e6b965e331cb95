// Host memory of the CUDA driver, which a device addresses by pages of 2 MB. Registered memory is addressed by pages of
// 4 kB: where rows lie at random places a device waits for their addresses, and moves them at less than half the rate
// of the bus. A forked process does not have this memory.
#pragma once

#include <cstddef>
#include <cstdint>

namespace frugal {

class ManagedMemory {
 public:
  // Whether all devices that this process sees share such memory with the host while they work.
  static bool is_available();

  // Memory that stays in the host, whatever it holds. Throws DeviceError.
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
