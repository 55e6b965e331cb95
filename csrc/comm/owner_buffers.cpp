#include "comm/owner_buffers.h"

namespace frugal {
namespace {

std::uint64_t* word_of(char* buffer, int kind, int rank) {
  return reinterpret_cast<std::uint64_t*>(buffer + static_cast<std::size_t>(kind * kMostRanks + rank) * kExchangeLine);
}

RankWords words_of(int kind, int rank, const std::vector<char*>& buffers, const std::uint32_t* failed) {
  RankWords words{rank, static_cast<int>(buffers.size()), {}, {}, failed};
  for (int other = 0; other < words.ranks; ++other) {
    words.tell[other] = word_of(buffers[static_cast<std::size_t>(other)], kind, rank);
    words.hear[other] = word_of(buffers[static_cast<std::size_t>(rank)], kind, other);
  }
  return words;
}

}  // namespace

OwnerTransferRows owner_transfer_rows(const RowMemory& part, int rank, const std::vector<char*>& buffers,
                                      const std::uint32_t* failed) {
  OwnerTransferRows rows{part, words_of(0, rank, buffers, failed), words_of(1, rank, buffers, failed), {}};
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
