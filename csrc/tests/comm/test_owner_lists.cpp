// Ranks as threads tell each other their rows, and notice one that goes away or goes on alone.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <new>
#include <random>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "comm/owner_lists.h"

namespace frugal::owner_lists {
namespace {

constexpr std::int64_t kMaxRows = 20, kTable = 60, kSteps = 200;

struct Segment {
  explicit Segment(int ranks, std::int64_t steps)
      : size(OwnerLists::bytes_needed(ranks, steps, kMaxRows)),
        data(new (std::align_val_t{128}) std::byte[size]()) {}
  ~Segment() { operator delete[](data, std::align_val_t{128}); }
  std::size_t size;
  std::byte* data;
};

// By owner; often of none.
std::vector<std::int64_t> rows_of(int rank, int ranks, std::int64_t step) {
  std::mt19937 random(static_cast<unsigned>(1000 * step + rank));
  std::vector<std::int64_t> rows;
  for (int owner = 0; owner < ranks; ++owner)
    for (std::int64_t row = owner; row < kTable; row += ranks)
      if (random() % 4 == 0 && rows.size() < kMaxRows) rows.push_back(row);
  return rows;
}

TEST(OwnerLists, TellEachOwnerItsRowsOfAllRanksInTheirOrder) {
  for (const int ranks : {1, 2, 3, 5}) {
    const Segment segment(ranks, 6);
    std::vector<std::thread> threads;
    for (int rank = 0; rank < ranks; ++rank)
      threads.emplace_back([&, rank] {
        OwnerLists lists(segment.data, segment.size, rank, ranks, 6, kMaxRows);
        std::mt19937 random(static_cast<unsigned>(rank));
        std::int64_t posted = 0;
        std::vector<std::int64_t> found, counts;
        for (std::int64_t step = 0; step < kSteps; ++step) {
          const auto ahead = std::min(kSteps, step + 1 + static_cast<std::int64_t>(random() % 5));
          for (; posted < ahead; ++posted) lists.post(rows_of(rank, ranks, posted));
          lists.take(found, counts);
          lists.begin();
          std::vector<std::int64_t> wanted, asked, sent(ranks);
          for (int from = 0; from < ranks; ++from) {
            asked.push_back(0);
            for (const std::int64_t row : rows_of(from, ranks, step))
              if (row % ranks == rank) wanted.push_back(row), ++asked.back();
          }
          for (const std::int64_t row : rows_of(rank, ranks, step)) ++sent[row % ranks];
          asked.insert(asked.end(), sent.begin(), sent.end());
          EXPECT_EQ(found, wanted);
          EXPECT_EQ(counts, asked);
          if (step % 50 == 49) lists.meet();
        }
        lists.meet();
      });
    for (std::thread& thread : threads) thread.join();
  }
}

std::string sentence_of(const auto& call) {
  try {
    call();
    return "";
  } catch (const std::runtime_error& error) {
    return error.what();
  }
}

TEST(OwnerLists, ARankThatGoesOnAloneIsNoticed) {
  const Segment segment(2, 4);
  OwnerLists one(segment.data, segment.size, 0, 2, 4, kMaxRows), other(segment.data, segment.size, 1, 2, 4, kMaxRows);
  other.begin();
  const std::string sentence = sentence_of([&] { one.meet(); });
  EXPECT_NE(sentence.find("rank 1 goes on with step 0"), std::string::npos) << sentence;
  EXPECT_EQ(sentence_of([&] { other.begin(); }), sentence);
  EXPECT_EQ(sentence_of([&] { other.ready(); }), sentence);
}

TEST(OwnerLists, ARankThatHasLeftIsNoticed) {
  const Segment segment(2, 4);
  std::vector<std::int64_t> rows, counts;
  OwnerLists one(segment.data, segment.size, 0, 2, 4, kMaxRows);
  OwnerLists(segment.data, segment.size, 1, 2, 4, kMaxRows);
  one.post(rows);
  EXPECT_EQ(sentence_of([&] { one.take(rows, counts); }), "Rank 1 has left, and other ranks wait for it.");
}

TEST(OwnerLists, RefuseMoreRowsThanThereIsRoomFor) {
  const Segment segment(1, 4);
  OwnerLists lists(segment.data, segment.size, 0, 1, 4, kMaxRows);
  EXPECT_THROW(lists.post(std::vector<std::int64_t>(kMaxRows + 1)), std::invalid_argument);
  EXPECT_THROW(OwnerLists(segment.data, segment.size - 1, 0, 1, 4, kMaxRows), std::invalid_argument);
  EXPECT_THROW(OwnerLists(segment.data, segment.size, 1, 1, 4, kMaxRows), std::invalid_argument);
}

}  // namespace
}  // namespace frugal::owner_lists
