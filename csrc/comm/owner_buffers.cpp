#include "comm/owner_buffers.h"

namespace frugal {

OwnerTransferRows owner_transfer_rows(const RowMemory& part, int rank, const std::vector<char*>& buffers,
                                      const std::uint32_t* failed) {
  OwnerTransferRows rows{part, rank_words(rank, buffers, failed, 0), rank_words(rank, buffers, failed, 1), {}};
  for (std::size_t each = 0; each < buffers.size(); ++each)
    rows.cache[each] = reinterpret_cast<float*>(buffers[each] + kOwnerWordBytes);
  return rows;
}

OwnerTransferRecords owner_transfer_records(int rank, const std::vector<char*>& buffers, const float* own) {
  OwnerTransferRecords records{};
  const auto place = reinterpret_cast<const char*>(own) - buffers[static_cast<std::size_t>(rank)];
  for (std::size_t each = 0; each < buffers.size(); ++each)
    records.of[each] = reinterpret_cast<float*>(buffers[each] + place);
  return records;
}

}  // namespace frugal
