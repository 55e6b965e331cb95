#include "device/device_error.h"
#include "device/stream_event.h"

namespace frugal {

StreamEvent::~StreamEvent() = default;

void StreamEvent::record(std::uintptr_t) {
  throw DeviceError("no events of devices: nvcc was not found when dglke_frugal was compiled");
}

void StreamEvent::hold(std::uintptr_t) const {}
bool StreamEvent::passed() const { return true; }
void StreamEvent::wait() const {}

}  // namespace frugal
