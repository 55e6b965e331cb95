// The exchange: the collectives inside a step of ranks that own columns of the same rows.
//
// There are three collectives in a step, each with a region of its own:
//
//   kScores:  each rank has a part, its raw scores of all positives; the owner of a share (comm/share.h) reads that
//             share of all parts and adds it up.
//   kWeights: one for all ranks: each writes what has become of its share, and reads the shares of the others.
//   kSquares: each rank has a part, its mean squares; everybody reads all parts and adds them up.
//
// The rules:
//
//   1. A rank writes to a region, and then, with release order, says in its word how many collectives it has entered.
//   2. It reads what another rank has written only once that one's word, read with acquire order, has the number of the
//        running collective.
//   3. A rank that enters a collective has read what it reads of the one before. So a region is free again after the
//        next collective, and no region serves two collectives in a row.
//   4. Parts are added in the order of ranks, whatever the order in which they are written.
//   5. Once somebody has failed nobody waits any more; results are then worthless, and whoever uses them asks first.
//
// Here the ranks are threads or processes and the regions lie in memory that they share; cuda/exchange_kernels.h does
// the same on devices. Waiting for a rank that neither comes nor fails never ends.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>

#include "comm/share.h"

namespace frugal {

inline constexpr std::size_t kExchangeLine = 128;  // bytes: words of different ranks never share one

// The host memory that the ranks of a machine share, zeroed before the first rank comes.
struct ExchangeWords {
  alignas(kExchangeLine) std::uint32_t failed;  // 0; 1 while the sentence is being written; 2
  char sentence[2 * kExchangeLine - sizeof(std::uint32_t)];
  struct alignas(kExchangeLine) Word {
    std::uint64_t posted;
  };
  Word word[kMostHostRanks];

  // The first sentence that anybody gives counts.
  void fail(const std::string& why);
};

enum class ExchangeRegion { kScores, kWeights, kSquares };

// Floats of a rank's part of kScores, of kWeights as a whole, and of a rank's part of kSquares.
struct ExchangeFloats {
  std::int64_t scores, weights, squares;
};

// Mistakes that a test can make on purpose, to see that it would find them, and where it can make a rank slow.
struct ExchangeRules {
  static constexpr int kEverywhere = -2;
  int careless = -1;  // the region in whose collectives, or kEverywhere, the last one of the others is not awaited
  bool regions_apart = true;  // else all collectives use the same memory
  bool in_rank_order = true;  // else own part first
  std::function<void(int rank)> before_reading = nullptr;
};

class HostExchange {
 public:
  // segment: of bytes_needed(...) bytes, 128-byte aligned, the same memory for all ranks; must outlive the exchange.
  // Throws std::invalid_argument for sizes that do not fit.
  HostExchange(std::byte* segment, std::size_t bytes, int rank, int ranks, const ExchangeFloats& floats,
               const ExchangeRules& rules = {});

  static std::size_t bytes_needed(int ranks, const ExchangeFloats& floats);

  int rank() const { return rank_; }
  int ranks() const { return ranks_; }
  const ExchangeFloats& floats() const { return floats_; }
  ExchangeWords& words() { return *words_; }

  // Where a rank's part of a region begins; kWeights has one for all.
  float* part(ExchangeRegion region, int rank);

  // The collectives of a step, in their order. Throw std::invalid_argument for more floats than a region has.
  //
  // values: `rows` records of `width` floats, then `common` floats. The records of this rank's share and the common
  // floats become sums over ranks.
  void reduce_scatter(float* values, std::int64_t rows, std::int64_t width, std::int64_t common);
  // records: as many of `width` floats, of which this rank has made its share; gets the others'.
  void all_gather(float* records, std::int64_t rows, std::int64_t width);
  // values[i] = (sum over ranks of values[i]) / ranks.
  void all_reduce_mean(float* values, std::int64_t count);

  // Barriers, other than a step's collectives: kScores and kSquares take turns. A rank writes into next_part and says
  // with post that it has; await returns when all have, false if somebody has failed; then part_of is any rank's part.
  // barrier is both, one after the other.
  float* next_part() { return part(turn(posted_), rank_); }
  void post();
  bool await() { return await(turn(posted_ - 1)); }
  bool barrier() {
    post();
    return await();
  }
  float* part_of(int rank) { return part(turn(posted_ - 1), rank); }

  // Ends the waiting of all ranks, with the first sentence that anybody gives.
  void fail(const std::string& sentence) { words_->fail(sentence); }
  std::string sentence() const;  // empty as long as nobody has failed

 private:
  static ExchangeRegion turn(std::uint64_t number) {
    return number % 2 == 0 ? ExchangeRegion::kScores : ExchangeRegion::kSquares;
  }
  bool failed() const;
  bool await(ExchangeRegion region);  // false if somebody has failed
  bool barrier(ExchangeRegion region);   // the same
  void add_parts(ExchangeRegion region, std::int64_t first, std::int64_t count, float* to);

  ExchangeWords* words_;
  float* regions_;
  const int rank_, ranks_;
  const ExchangeFloats floats_;
  const ExchangeRules rules_;
  std::uint64_t posted_ = 0;
};

}  // namespace frugal
