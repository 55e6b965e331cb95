// The device's copy, thread after thread: every word once, nothing else, and requests of whole lines.
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "rows/word_copy.h"

namespace frugal {
namespace {

TEST(CopyWords, MovesEachWordOnceFromAnyPlaceInALine) {
  alignas(128) static Word source[400], target[400];
  for (int i = 0; i < 400; ++i) source[i] = {{i + 0.25f, i + 0.5f, i + 0.75f, i + 1.0f}};
  for (const int lanes : {8, 16, 32})
    for (int shift = 0; shift < kLineWords; ++shift)
      for (const int words : {1, 2, 7, 8, 9, 31, 32, 33, 101, 127, 128, 129, 251}) {
        std::fill(std::begin(target), std::end(target), Word{{-1, -1, -1, -1}});
        std::vector<int> moved(400);
        for (int lane = 0; lane < lanes; ++lane) {
          std::vector<Word> before(std::begin(target), std::end(target));
          copy_words(target + 20, source + shift, words, lane, lanes);
          for (int i = 0; i < 400; ++i) moved[i] += before[i].at[0] != target[i].at[0];
        }
        for (int i = 0; i < 400; ++i) {
          const bool inside = i >= 20 && i < 20 + words;
          ASSERT_EQ(moved[i], inside) << "lanes " << lanes << " shift " << shift << " words " << words << " word " << i;
          for (int k = 0; inside && k < 4; ++k) ASSERT_EQ(target[i].at[k], source[i - 20 + shift].at[k]);
        }
      }
}

// The lanes of a group read the words of one line at the same time.
TEST(CopyWords, LanesStartAtALine) {
  alignas(128) static Word source[64], target[64];
  for (int shift = 0; shift < kLineWords; ++shift) {
    std::fill(std::begin(target), std::end(target), Word{});
    std::fill(std::begin(source), std::end(source), Word{{1, 1, 1, 1}});
    copy_words(target, source + shift, 40, kLineWords - 1, 32);  // the last lane of the first line
    EXPECT_EQ(target[kLineWords - 1 - shift].at[0], 1.0f);
    EXPECT_EQ(std::count_if(std::begin(target), std::end(target), [](const Word& word) { return word.at[0] == 1.0f; }),
              kLineWords - 1 - shift + 32 < 40 ? 2 : 1);
  }
}

TEST(LanesForWords, CoverTheRowWithinAWarp) {
  EXPECT_EQ(lanes_for_words(1), 8);
  EXPECT_EQ(lanes_for_words(8), 8);
  EXPECT_EQ(lanes_for_words(32), 8);
  EXPECT_EQ(lanes_for_words(33), 16);
  EXPECT_EQ(lanes_for_words(65), 32);
  EXPECT_EQ(lanes_for_words(1000), 32);
}

}  // namespace
}  // namespace frugal
