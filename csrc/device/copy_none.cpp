#include "device/copy.h"
#include "device/device_error.h"

namespace frugal {

void enqueue_copy(void*, const void*, std::size_t, std::uintptr_t) {
  throw DeviceError("no copies to devices: nvcc was not found when dglke_frugal was compiled");
}

}  // namespace frugal
