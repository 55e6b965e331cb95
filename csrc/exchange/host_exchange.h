// The exchange: where ranks that own columns of the same rows meet inside a step.
//
// In an exchange every rank puts out a part, an array of floats, and gets the sum of all parts, added in the order of
// ranks, so that everybody has the same bits. There are two in a step, of its raw scores and of its mean squares, each
// with a region of its own for the parts. The rules:
//
//   1. A rank writes its part, and then, with release order, says in its word how many exchanges it has posted.
//   2. It reads the part of another rank only once that one's word, read with acquire order, has the number of the
//      running exchange.
//   3. It writes a region again only in the exchange after the next. Whoever has posted the next one has read all parts
//      of this one, and everybody waits for that in the next one: two regions that take turns need no further word.
//   4. Parts are added in the order of ranks, whatever the order in which they arrive.
//   5. Once somebody has failed nobody waits any more; the sums are then worthless, and whoever uses them asks first.
//
// Here the ranks are threads or processes and the parts lie in memory that they share; cuda/exchange_kernels.h is the
// twin on devices. Waiting for a rank that neither posts nor fails never ends.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace frugal {

inline constexpr int kMostRanks = 8;
inline constexpr std::size_t kExchangeLine = 128;  // bytes: words of different ranks never share one

// What the ranks of a machine share in host memory, zeroed before the first rank comes.
struct ExchangeWords {
  alignas(kExchangeLine) std::uint32_t failed;  // 0; 1 while the sentence is being written; 2
  char sentence[2 * kExchangeLine - sizeof(std::uint32_t)];
  struct alignas(kExchangeLine) Word {
    std::uint64_t posted;
  };
  Word word[kMostRanks];
};

// Mistakes that a test can make on purpose, to see that it would find them, and where it can make a rank slow.
struct ExchangeRules {
  bool awaits_all = true;      // else not the last one of the others
  bool two_regions = true;     // else both exchanges of a step share the first one
  bool in_rank_order = true;   // else own part first
  void (*before_reading)(int rank) = nullptr;
};

class HostExchange {
 public:
  // segment: of bytes_needed(...) bytes, 128-byte aligned, the same memory for all ranks; must outlive the exchange.
  // floats: of each region. Throws std::invalid_argument for sizes that do not fit.
  HostExchange(std::byte* segment, std::size_t bytes, int rank, int ranks, std::int64_t first_floats,
               std::int64_t second_floats, const ExchangeRules& rules = {});

  static std::size_t bytes_needed(int ranks, std::int64_t first_floats, std::int64_t second_floats);

  int rank() const { return rank_; }
  int ranks() const { return ranks_; }
  std::int64_t floats(int region) const { return floats_[region]; }
  ExchangeWords& words() { return *words_; }

  // This rank's part of a region, or another's.
  float* part(int region) { return part(region, rank_); }
  float* part(int region, int rank);

  // The running exchange, whose own part has been written: to[i] = (sum over ranks of part[i]) / divisor. Exchanges
  // take the regions in turn.
  void sum(int region, std::int64_t count, float divisor, float* to);

  // The same in steps, for parts that are not added up; both regions take turns here, too. Into next_part goes this
  // rank's part; post says that it is there; await returns when all are, false if somebody has failed; then met_part is
  // any rank's.
  float* next_part() { return part(static_cast<int>(posted_ % 2)); }
  void post();
  bool await();
  float* met_part(int rank) { return part(static_cast<int>((posted_ - 1) % 2), rank); }

  // Ends the waiting of all ranks, with the first sentence that anybody gives.
  void fail(const std::string& sentence);
  std::string sentence() const;  // empty as long as nobody has failed

 private:
  bool failed() const;

  ExchangeWords* words_;
  float* parts_;
  const int rank_, ranks_;
  const std::int64_t floats_[2];
  const ExchangeRules rules_;
  std::uint64_t posted_ = 0;
};

}  // namespace frugal
