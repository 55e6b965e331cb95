#include "sampler/shared_batches.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <random>
#include <thread>

#include "base/parallel/start_thread.h"
#include "sampler/batch_stream.h"
#include "sampler/sampler.h"
#include "tests/at_once.h"
#include "tests/room.h"
#include "tests/sampler/graph.h"

namespace frugal::shared_batches {
namespace {

const Graph<>& graph() {
  static const Graph<> instance(4099, 500, 20);  // with a rest at the end of an epoch
  return instance;
}

// The batches of so many ranks together.
std::shared_ptr<const Sampler> make_source(int ranks, EdgeList edges = graph().edges()) {
  return std::make_shared<const Sampler>(edges, SamplerConfig{500, 20, 100 * ranks, 25, 7});
}

// Every interleaving of writes and reads that the ring allows, one after the other at random: a batch is read when it
// has been written and never otherwise, and a cell is written when all have read it and never otherwise.
TEST(BatchRing, LetsThroughWhatItShouldInAnyOrder) {
  std::mt19937 random(3);
  for (int round = 0; round < 20; ++round) {
    const int ranks = 1 + static_cast<int>(random() % 5);
    const std::int64_t first = random() % 2 ? 0 : 17, last = first + 60;
    const auto source = make_source(ranks);
    BatchRing ring(ranks, source->limits());
    const std::int64_t cells = ring.cells();
    ASSERT_EQ(cells % ranks, 0);
    std::vector<std::int64_t> next_write(ranks), next_read(ranks, first);
    for (int r = 0; r < ranks; ++r)
      for (next_write[r] = first; ring.maker(next_write[r]) != r;) ++next_write[r];
    const int favourite = static_cast<int>(random() % (2 * ranks));  // runs ahead as far as it can
    while (*std::min_element(next_read.begin(), next_read.end()) < last) {
      const int which = random() % 3 ? favourite : static_cast<int>(random() % (2 * ranks)), r = which / 2;
      if (which % 2) {
        const std::int64_t step = next_write[r];
        const bool allowed = step - cells < *std::min_element(next_read.begin(), next_read.end());
        ASSERT_EQ(ring.try_write(step, first, sample(*source, step)), allowed);
        if (allowed) next_write[r] += ranks;
      } else if (next_read[r] < last) {
        const std::int64_t step = next_read[r];
        Batch batch;
        const bool allowed = step < next_write[ring.maker(step)];
        ASSERT_EQ(ring.try_read(r, step, batch), allowed);
        if (allowed) {
          ASSERT_EQ(content(batch), content(sample(*source, step)));
          ++next_read[r];
        }
      }
    }
  }
}

// Two threads of a rank may come to the same cell: the later step waits for the earlier one, written or not.
TEST(BatchRing, ALaterStepNeverOvertakesAnEarlierOneInItsCell) {
  const auto source = make_source(2);
  BatchRing ring(2, source->limits());
  EXPECT_FALSE(ring.try_write(ring.cells(), 0, sample(*source, ring.cells())));
  EXPECT_TRUE(ring.try_write(0, 0, sample(*source, 0)));
  EXPECT_FALSE(ring.try_write(ring.cells(), 0, sample(*source, ring.cells())));
  Batch batch;
  EXPECT_TRUE(ring.try_read(0, 0, batch));
  EXPECT_FALSE(ring.try_write(ring.cells(), 0, sample(*source, ring.cells())));  // rank 1 has not read it
  EXPECT_TRUE(ring.try_read(1, 0, batch));
  EXPECT_TRUE(ring.try_write(ring.cells(), 0, sample(*source, ring.cells())));
  EXPECT_THROW(ring.try_read(1, 0, batch), std::logic_error);  // twice
}

TEST(BatchRing, RefusesImpossibleSettings) {
  EXPECT_THROW(BatchRing(0, make_source(1)->limits()), std::invalid_argument);
  EXPECT_THROW(BatchRing(65, make_source(1)->limits()), std::invalid_argument);
  EXPECT_THROW(BatchRing("/dev/null"), std::runtime_error);
  EXPECT_THROW(BatchRing(2, make_source(2)->limits()).enter(2), std::invalid_argument);
}

// Ranks as threads of this process, at speeds of their own.
TEST(SharedBatches, GiveEachRankTheSourcesBatches) {
  for (const int ranks : {1, 2, 3}) {
    for (const int makers : {1, 2}) {
      for (const std::int64_t first : {0, 59}) {
        const auto source = make_source(ranks);
        const auto ring = std::make_shared<BatchRing>(ranks, source->limits());
        at_once(ranks, [&](int r) {
          BatchStream stream(std::make_shared<SharedBatches>(source, ring, r, first, makers), first, 1 + r % 2, 3);
          std::mt19937 random(r);
          for (std::int64_t step = first; step < first + 80; ++step) {
            ASSERT_EQ(content(*stream.next()), content(sample(*source, step))) << "rank " << r << ", step " << step;
            if (random() % 16 == 0) std::this_thread::sleep_for(std::chrono::microseconds(random() % 1000));
          }
        });
      }
    }
  }
}

TEST(SharedBatches, AnErrorAppearsAtItsStepOnEachRank) {
  Graph<> broken = graph();
  broken.head[1234] = 500;  // one beyond the last entity
  std::int64_t bad_step = 0;
  for (const auto good = make_source(2);; ++bad_step) {
    const Batch batch = sample(*good, bad_step);
    if (std::find(batch.weight.begin(), batch.weight.end(), 1234.0f) != batch.weight.end()) break;
  }
  const auto source = make_source(2, broken.edges());
  const auto ring = std::make_shared<BatchRing>(2, source->limits());
  at_once(2, [&](int r) {
    BatchStream stream(std::make_shared<SharedBatches>(source, ring, r, 0, 1), 0, 1, 4);
    for (std::int64_t step = 0; step < bad_step; ++step) EXPECT_EQ(stream.next()->step, step);
    EXPECT_THROW(stream.next(), std::out_of_range);
    EXPECT_THROW(stream.next(), std::out_of_range);
  });
}

TEST(SharedBatches, CloseEndsWhoWaitsForARankThatNeverComes) {
  const auto source = make_source(2);
  const auto ring = std::make_shared<BatchRing>(2, source->limits());
  BatchStream stream(std::make_shared<SharedBatches>(source, ring, 0, 0, 2), 0, 2, 4);
  EXPECT_EQ(stream.next()->step, 0);
  std::thread consumer([&] { EXPECT_THROW(stream.next(), std::runtime_error); });
  stream.close();
  consumer.join();
}

#if !defined(FRUGAL_SANITIZED)
// Ends this process: 0 if others hear of a rank that could not start the first of its threads.
[[noreturn]] void make_batches_without_room() {
  const auto source = make_source(2);
  const auto ring = std::make_shared<BatchRing>(2, source->limits());
  leave_room(1 << 20);  // too little for a stack
  try {
    const SharedBatches batches(source, ring, 0, 0, 1);
    _exit(1);
  } catch (const ThreadShortage&) {
  }
  leave_all_room();
  alarm(300);
  Batch batch;
  const std::atomic<bool> stopping{false};
  try {
    ring->read(1, 0, batch, stopping);
  } catch (const RankLost&) {
    _exit(0);
  }
  _exit(2);
}

TEST(SharedBatchesDeathTest, ARankWithoutThreadsHasLeft) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");  // a new process, without stacks to use again
  EXPECT_EXIT(make_batches_without_room(), testing::ExitedWithCode(0), "");
}
#endif

TEST(SharedBatches, ARankThatNeverComesIsNamed) {
  const auto source = make_source(2);
  const auto ring = std::make_shared<BatchRing>(2, source->limits());
  ring->attach_seconds = 0.2;
  BatchStream stream(std::make_shared<SharedBatches>(source, ring, 0, 0, 1), 0, 1, 4);
  EXPECT_EQ(stream.next()->step, 0);
  EXPECT_THROW(stream.next(), RankLost);
}

// The other rank left after its last step: what it owes comes, what it would have made later is an error.
TEST(SharedBatches, ARankThatLeftIsNamedWhereItsBatchesEnd) {
  for (const int leaves : {0, 1}) {
    const auto source = make_source(2);
    const auto ring = std::make_shared<BatchRing>(2, source->limits());
    BatchStream stays(std::make_shared<SharedBatches>(source, ring, 1 - leaves, 0, 1), 0, 1, 4);
    {
      BatchStream goes(std::make_shared<SharedBatches>(source, ring, leaves, 0, 1), 0, 1, 4);
      for (int step = 0; step < 5; ++step) goes.next();
    }
    for (int step = 0; step < 5; ++step) ASSERT_EQ(content(*stays.next()), content(sample(*source, step)));
    try {
      while (stays.next()->step < 100) continue;
      FAIL() << "no error";
    } catch (const RankLost& lost) {
      EXPECT_NE(std::string(lost.what()).find("Rank " + std::to_string(leaves) + " left"), std::string::npos);
    }
  }
}

// A process that attaches to the ring as rank 1, and runs `body` there.
pid_t other_process(const BatchRing& ring, int ranks, const std::function<void(BatchStream&)>& body) {
  const pid_t child = fork();
  if (child == 0) {
    const auto source = make_source(ranks);
    const auto attached = std::make_shared<BatchRing>(ring.path());
    BatchStream stream(std::make_shared<SharedBatches>(source, attached, 1, 0, 1), 0, 1, 4);
    body(stream);
    stream.close();
    _exit(0);
  }
  return child;
}

TEST(SharedBatches, ProcessesGetTheSameBatches) {
  const auto source = make_source(2);
  const auto ring = std::make_shared<BatchRing>(2, source->limits());
  constexpr int kSteps = 200;
  const pid_t child = other_process(*ring, 2, [&](BatchStream& stream) {
    for (int step = 0; step < kSteps; ++step)
      if (content(*stream.next()) != content(sample(*source, step))) _exit(3);
  });
  {
    BatchStream stream(std::make_shared<SharedBatches>(source, ring, 0, 0, 1), 0, 1, 4);
    for (int step = 0; step < kSteps; ++step) ASSERT_EQ(content(*stream.next()), content(sample(*source, step)));
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

// Killed where it waits for room, where it waits for a batch, or anywhere: the survivor says so and does not hang.
TEST(SharedBatches, AKilledRankDoesNotHangTheOthers) {
  for (int round = 0; round < 6; ++round) {
    const auto source = make_source(2);
    const auto ring = std::make_shared<BatchRing>(2, source->limits());
    const pid_t child = other_process(*ring, 2, [&](BatchStream& stream) {
      const int steps = round % 3 == 0 ? 0 : round % 3 == 1 ? 7 : 1 << 30;
      for (int step = 0; step < steps; ++step) stream.next();
      while (true) pause();
    });
    BatchStream stream(std::make_shared<SharedBatches>(source, ring, 0, 0, 1), 0, 1, 4);
    for (int step = 0; step < 6; ++step) stream.next();  // so it has come
    std::thread killer([&] {
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      kill(child, SIGKILL);
      waitpid(child, nullptr, 0);
    });
    try {
      while (true) stream.next();
    } catch (const RankLost& lost) {
      EXPECT_NE(std::string(lost.what()).find("Rank 1 (process " + std::to_string(child) + ") has ended"),
                std::string::npos)
          << lost.what();
    }
    killer.join();
  }
}

}  // namespace
}  // namespace frugal::shared_batches
