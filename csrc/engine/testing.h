// Two switches that exist only in the library that the tests link (FRUGAL_ENGINE_TESTING): named points where a test
// can stop a thread, and the broken variants of the protocol that the tests must catch. Elsewhere both compile to
// nothing.
#pragma once

#include <cstdint>
#if defined(FRUGAL_ENGINE_TESTING)
#include <functional>
#endif

namespace frugal {

// Broken variants of the protocol; docs/p2f.md has the test of each, test_synchronised_ranks.cpp that of the last two.
enum class Mutation {
  kNone,
  kRandomOrder,  // not broken: any order of flushing is correct
  kNoWriteBackRequest,
  kWriteBackAtInfinity,
  kDeadlineNotMoved,
  kOnlyReceivedCounts,
  kWritingNotCounted,
  kWritingLevelFrozen,
  kRegisteredOneStepLate,
  kSharedBuffer,
  kReceiveOrder,
  kInfinityNeverDrained,
  kNothingPublishedBeforeSync,
  kNothingLate,
};

#if defined(FRUGAL_ENGINE_TESTING)
void set_mutation(Mutation mutation);
bool mutated(Mutation mutation);
// The function is called at each sync point with its name and a step or row; what it throws fails the thread. nullptr:
// none.
using SyncPointFunction = std::function<void(const char* name, std::int64_t detail)>;
void set_sync_points(SyncPointFunction function);
void reach_sync_point(const char* name, std::int64_t detail);
#define FRUGAL_SYNC_POINT(name, detail) ::frugal::reach_sync_point(name, detail)
#else
constexpr bool mutated(Mutation) { return false; }
#define FRUGAL_SYNC_POINT(name, detail) static_cast<void>(0)
#endif

}  // namespace frugal
