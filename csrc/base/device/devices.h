// Which CUDA devices this process sees, or why it sees none.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace frugal {

struct Device {
  int index;
  std::string name;
  int major, minor;  // compute capability
  int multiprocessors;
  std::int64_t total_bytes;  // of device memory
  std::int64_t free_bytes;   // now; -1 if the device did not say
  std::string pci_bus;
  bool reads_host_by_same_address;  // registered host memory has the same address on the device
};

struct DeviceList {
  std::vector<Device> devices;
  std::string reason;  // why there are none; empty otherwise
};

// Never throws for a machine without driver or device: that is what `reason` is for. Asking for free memory makes a
// context on each device, so it is optional.
DeviceList list_devices(bool with_free_memory);

}  // namespace frugal
