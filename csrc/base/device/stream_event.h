// Events in the order of work of a device's streams, which other streams and the host wait for. A stream that is being
// captured may record them and wait for them, too: each launch of the graph then does so, as if it were a call.
#pragma once

#include <cstdint>

namespace frugal {

// Streams are cudaStream_t. All calls throw DeviceError if they fail, or if work has failed that ran before.
class StreamEvent {
 public:
  explicit StreamEvent(int device) : device_(device) {}  // whose streams record it
  ~StreamEvent();
  StreamEvent(const StreamEvent&) = delete;
  StreamEvent& operator=(const StreamEvent&) = delete;

  // From now on the event is behind all that the stream has been given.
  void record(std::uintptr_t stream);

  // Work that the stream is given from now on waits for the event, as it was recorded last. One that has never been
  // recorded is past, here and below.
  void wait_in_stream(std::uintptr_t stream) const;

  // Whether the work before it is done.
  bool passed() const;

  // Returns when it is done.
  void wait() const;

 private:
  const int device_;
  void* event_ = nullptr;  // a cudaEvent_t, made when it is first recorded
};

}  // namespace frugal
