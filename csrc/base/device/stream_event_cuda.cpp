#include "base/device/cuda_check.h"
#include "base/device/stream_event.h"

namespace frugal {
namespace {

cudaEvent_t handle(void* event) { return static_cast<cudaEvent_t>(event); }
cudaStream_t stream_of(std::uintptr_t stream) { return reinterpret_cast<cudaStream_t>(stream); }

// An event belongs to the device that is the current one when it is made.
cudaEvent_t make_event(int device) {
  int current;
  cudaEvent_t event;
  cuda_check(cudaGetDevice(&current), "asking for the current CUDA device");
  cuda_check(cudaSetDevice(device), "choosing a CUDA device");
  const cudaError_t status = cudaEventCreateWithFlags(&event, cudaEventDisableTiming);
  cudaSetDevice(current);
  cuda_check(status, "making a CUDA event");
  return event;
}

// Whether what the stream is given becomes part of a graph. An event recorded or waited for there is so each time the
// graph is launched, and as if the launch had done it: not at capture.
bool is_captured(cudaStream_t stream) {
  cudaStreamCaptureStatus status;
  cuda_check(cudaStreamIsCapturing(stream, &status), "asking whether a CUDA stream is captured");
  return status != cudaStreamCaptureStatusNone;
}

}  // namespace

StreamEvent::~StreamEvent() {
  if (event_ != nullptr) cudaEventDestroy(handle(event_));
}

void StreamEvent::record(std::uintptr_t stream) {
  if (event_ == nullptr) event_ = make_event(device_);
  const unsigned flags = is_captured(stream_of(stream)) ? cudaEventRecordExternal : cudaEventRecordDefault;
  cuda_check(cudaEventRecordWithFlags(handle(event_), stream_of(stream), flags), "recording a CUDA event");
}

void StreamEvent::wait_in_stream(std::uintptr_t stream) const {
  if (event_ == nullptr) return;
  const unsigned flags = is_captured(stream_of(stream)) ? cudaEventWaitExternal : cudaEventWaitDefault;
  cuda_check(cudaStreamWaitEvent(stream_of(stream), handle(event_), flags), "letting a stream wait for a CUDA event");
}

bool StreamEvent::passed() const {
  if (event_ == nullptr) return true;
  const cudaError_t status = cudaEventQuery(handle(event_));
  if (status == cudaErrorNotReady) {
    cudaGetLastError();  // or the next check of a launch would find it
    return false;
  }
  cuda_check(status, "CUDA work before an event");
  return true;
}

void StreamEvent::wait() const {
  if (event_ != nullptr) cuda_check(cudaEventSynchronize(handle(event_)), "CUDA work before an event");
}

}  // namespace frugal
