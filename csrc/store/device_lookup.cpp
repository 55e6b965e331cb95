#include "store/device_lookup.h"

#include <limits>
#include <stdexcept>
#include <string>
#include <utility>

#include "base/device/device_error.h"
#include "store/lookup.h"

namespace frugal {
namespace {

// Behind each other: rows, inverse, offset and order.
std::size_t lay_out(std::byte* memory, std::int64_t most, cuda::SortedIds& out) {
  std::size_t end = 0;
  const auto place = [&]<class T>(T*& array, std::int64_t length) {
    array = reinterpret_cast<T*>(memory + end);
    end += static_cast<std::size_t>(length) * sizeof(T);
  };
  place(out.rows, most);
  place(out.inverse, most);
  place(out.offset, most + 1);
  place(out.order, most);
  return end;
}

}  // namespace

std::size_t SortMemory::sorted_bytes(std::int64_t most) {
  cuda::SortedIds out;
  return lay_out(nullptr, most, out);
}

cuda::SortedIds SortMemory::place(std::int64_t count) const {
  if (count > most) throw std::invalid_argument("there is no room for the sorted ids");
  if (count >= std::numeric_limits<std::int32_t>::max())
    throw std::invalid_argument("a lookup of " + std::to_string(count) + " ids is too large; split the batch");
  cuda::SortedIds out;
  lay_out(sorted, most, out);
  out.host_rows = host_rows;
  out.host_counts = host_counts;
  return out;
}

DeviceLookup::DeviceLookup(const std::int64_t* ids, std::int64_t count, std::int64_t rows, int owners,
                           std::shared_ptr<SortMemory> memory, int device, std::uintptr_t stream)
    : ids_(ids),
      count_(count),
      table_rows_(rows),
      memory_(std::move(memory)),
      device_(device),
      out_(memory_->place(count)),
      sorted_(device) {
  if (count > 0)
    cuda::sort_ids(ids, count, OwnerOrder(rows, owners), memory_->scratch, memory_->scratch_bytes, out_, stream);
  else
    *out_.host_counts = {};
  sorted_.record(stream);
}

DeviceLookup::~DeviceLookup() {
  try {
    if (!known_) sorted_.wait();  // or memory would be written to that is somebody else's by now
  } catch (const DeviceError&) {  // of a device that does nothing any more
  }
}

void DeviceLookup::wait() {
  if (known_) return;
  sorted_.wait();
  known_ = true;
  if (const std::int64_t from_wrong = counts().from_wrong; from_wrong > 0)
    refuse_id(ids_[count_ - from_wrong], count_ - from_wrong, table_rows_);
}

std::span<const std::int64_t> DeviceLookup::rows() const {
  return {out_.host_rows, static_cast<std::size_t>(counts().distinct)};
}

const cuda::SortedCounts& DeviceLookup::counts() const {
  if (!known_) throw std::logic_error("a device may still be sorting this lookup");
  return *out_.host_counts;
}

}  // namespace frugal
