#include "engine/segment.h"

#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <stdexcept>

namespace frugal {
namespace {

constexpr std::uint64_t kMagic = 0x46525547414C3037;  // changes with the layout
constexpr std::int64_t kPage = 4096;

[[noreturn]] void refuse(const std::string& sentence) { throw std::invalid_argument(sentence); }

void require(bool condition, const char* sentence) {
  if (!condition) refuse(sentence);
}

}  // namespace

SegmentShape SegmentShape::of(const EngineConfig& config) {
  require(config.ranks >= 1, "The engine needs at least one rank.");
  require(config.lookahead >= 1, "The lookahead must be at least one step.");
  require(config.flush_threads >= 1, "The engine needs at least one flush thread.");
  require(config.entries >= 1, "A step has at least one entry.");
  require(config.layout.dim >= 1 && config.layout.state >= 0 && config.layout.stride >= config.layout.record_floats(),
          "A row is dim >= 1 floats and its state.");
  require(config.rows >= 1, "The engine needs a table with at least one row.");
  require(config.max_rows_per_step >= 1, "max_rows_per_step must be at least one.");
  require(config.horizon >= 0 && config.horizon < config.lookahead, "The horizon must be shorter than the lookahead.");
  require(config.staging_bytes >= 0 && config.poll_microseconds >= 0, "Sizes and times are not negative.");
  require(config.write_back_steps >= 0, "The number of write-back steps is not negative.");
  require(config.planner_threads >= 0, "The number of the planner's threads is not negative.");
  const bool one_plan = config.same_steps && config.ranks > 1;
  require(config.caches.empty() || static_cast<int>(config.caches.size()) == (one_plan ? 1 : config.ranks),
          "There must be one cache policy per rank, one for ranks that run the same steps, or none.");
  require(!one_plan || config.mode == FlushMode::kDirect,
          "Ranks that run the same steps store values into host rows themselves, in mode direct.");
  SegmentShape shape{};
  shape.ranks = config.ranks;
  shape.plans = one_plan ? 1 : config.ranks;
  shape.lookahead = config.lookahead;
  shape.entries = config.entries;
  shape.mode = config.mode;
  require(!shape.in_step_sync() || config.write_back_steps < kLateSteps,
          "In-step synchronisation stores values into host rows after three steps at the latest.");
  // Where reads follow stores nothing has to be watched: a record has landed when its step or write-back is published.
  shape.workers = shape.reads_follow_stores() ? 0 : config.flush_threads;
  shape.layout = config.layout;
  shape.rows = config.rows;
  shape.max_rows = std::min(config.max_rows_per_step, config.rows);
  shape.write_back_steps = shape.reads_follow_stores() ? config.write_back_steps : 0;
  shape.poll_microseconds = config.poll_microseconds;
  shape.keeps_reused = config.keeps_reused && shape.plans == 1 && shape.write_back_steps > 0;
  shape.evicts_to_buffer =
      config.evicts_to_buffer && shape.plans == 1 && shape.write_back_steps > 0 && !config.caches.empty();
  // A drain looks at the plans of the last steps, too, whose values may have stayed in the write-back buffer.
  shape.window = config.lookahead + 2 + (shape.keeps_reused ? shape.write_back_steps : 0);
  shape.block_ring = 4 * shape.window;
  const bool stages = !shape.reads_follow_stores() || shape.in_step_sync();
  const std::int64_t default_floats = !stages ? 0 : 8 * shape.max_rows * config.layout.stride;
  const std::int64_t floats = config.staging_bytes ? config.staging_bytes / 4 : default_floats;
  shape.staging_floats = std::max<std::int64_t>(1, floats / config.layout.stride) * config.layout.stride;
  std::int64_t slots = 0;
  for (const auto& cache : config.caches) {
    require(cache != nullptr && cache->slots() >= 0 && cache->slots() <= std::numeric_limits<std::int32_t>::max(),
            "A cache policy has between 0 and 2^31 - 1 slots.");
    slots = std::max(slots, cache->slots());
  }
  const std::int64_t more = (shape.in_step_sync() ? kLateSteps + 1 : shape.write_back_steps) * shape.max_rows;
  require(shape.plans * (slots + 1 + more) <= std::numeric_limits<std::int32_t>::max(),
          "The caches and the write-back buffers have at most 2^31 - 1 slots.");
  // A plan asks a rank for at most one write-back per slot, or per row that any rank uses in the step. Requests of a
  // step are served before the rank passes its gate, and at most lookahead + 1 steps are planned beyond that.
  const std::int64_t asked = shape.evicts_to_buffer ? 0 : std::min(slots, 2 * shape.plans * shape.max_rows);
  shape.request_ring = std::max<std::int64_t>(1, shape.window * asked);
  return shape;
}

struct Segment::Header {
  std::uint64_t magic;
  std::int64_t bytes;
  std::int32_t engine_pid;
  SegmentShape shape;
  Event work, planning, gate;
  Counter planned;
  std::atomic<std::int64_t> first_step;
  std::atomic<std::uint32_t> error_state;  // 0: none, 1: being written, 2: there
  char error[1024];                        // written by whoever moved error_state from 0 to 1
};

// Offsets of everything behind the header, in bytes.
struct Segment::Layout {
  std::int64_t opened, ranks, others, total;  // others: the areas of ranks that another one's cells serve
  std::int64_t rank_bytes, blocks, inbox_counts, counts, plans, occurrences, requests, staging;  // within a rank

  explicit Layout(const SegmentShape& s) {
    const auto place = [](std::int64_t& end, std::int64_t bytes, std::int64_t alignment = 128) {
      const std::int64_t start = (end + alignment - 1) / alignment * alignment;
      end = start + bytes;
      return start;
    };
    std::int64_t rank = 0;
    place(rank, sizeof(RankArea));
    blocks = place(rank, s.block_ring * static_cast<std::int64_t>(sizeof(Block)));
    inbox_counts = place(rank, s.window * 8);
    counts = place(rank, s.window * static_cast<std::int64_t>(sizeof(StepCounts)));
    plans = place(rank, s.window * s.plan().bytes);
    occurrences = place(rank, s.plans > 1 ? s.window * s.max_rows * s.entries * 4 : 0);
    requests = place(rank, s.request_ring * static_cast<std::int64_t>(sizeof(WriteBack)));
    staging = place(rank, s.staging_floats * 4, kPage);
    rank_bytes = (rank + kPage - 1) / kPage * kPage;
    std::int64_t end = 0;
    place(end, sizeof(Header));
    opened = place(end, s.workers * static_cast<std::int64_t>(sizeof(Counter)));
    ranks = place(end, s.plans * rank_bytes, kPage);
    others = place(end, (s.ranks - s.plans) * static_cast<std::int64_t>(sizeof(RankArea)));
    total = end;
  }
};

Segment::Segment() = default;

std::int64_t Segment::bytes_of(const SegmentShape& shape) { return Layout(shape).total; }

std::shared_ptr<Segment> Segment::create(const EngineConfig& config, bool shared) {
  const SegmentShape shape = SegmentShape::of(config);
  const Layout layout(shape);
  std::shared_ptr<Segment> segment(new Segment);
  segment->memory_ = SharedMapping(shared ? "frugal-engine" : nullptr, layout.total);
  Header& header = segment->header();  // fresh pages are zero: counters, events and the error state start there
  header.bytes = layout.total;
  header.engine_pid = getpid();
  header.shape = shape;
  header.magic = kMagic;
  segment->layout_ = std::make_unique<Layout>(shape);
  for (int r = 0; r < shape.ranks; ++r)
    segment->rank(r).cache_slots =
        config.caches.empty() ? 0 : config.caches[static_cast<std::size_t>(shape.same_steps() ? 0 : r)]->slots();
  return segment;
}

std::shared_ptr<Segment> Segment::attach(const std::string& path) {
  std::shared_ptr<Segment> segment(new Segment);
  segment->memory_ = SharedMapping(path);
  const Header& header = segment->header();
  const std::int64_t bytes = segment->bytes();
  if (bytes < static_cast<std::int64_t>(sizeof(Header)) || header.magic != kMagic || header.bytes != bytes)
    throw std::runtime_error("The file " + path + " is no segment of an engine of this version.");
  segment->layout_ = std::make_unique<Layout>(header.shape);
  if (header.engine_pid != getpid() && segment->engine_process_.has_ended(header.engine_pid))
    throw std::runtime_error("The process of the engine has ended.");
  return segment;
}

Segment::~Segment() = default;

const SegmentShape& Segment::shape() const { return header().shape; }
Event& Segment::work() { return header().work; }
Event& Segment::planning() { return header().planning; }
Event& Segment::gate() { return header().gate; }
Counter& Segment::planned() { return header().planned; }
std::atomic<std::int64_t>& Segment::first_step() { return header().first_step; }
Counter& Segment::opened(int worker) { return at<Counter>(layout_->opened)[worker]; }

// Of a rank's own cells, or those of all.
template <class T>
T* Segment::in_plan(int rank, std::int64_t offset) const {
  return at<T>(layout_->ranks + (shape().same_steps() ? 0 : rank) * layout_->rank_bytes + offset);
}

RankArea& Segment::rank(int rank) {
  if (rank < shape().plans) return *at<RankArea>(layout_->ranks + rank * layout_->rank_bytes);
  return at<RankArea>(layout_->others)[rank - shape().plans];
}
Counter& Segment::requested(int rank) { return in_plan<RankArea>(rank, 0)->requested; }
Block& Segment::block(int rank, std::int64_t step) {
  return in_plan<Block>(rank, layout_->blocks)[step % shape().block_ring];
}
bool Segment::landed(int rank, std::int64_t step, std::int64_t* begin) {
  const Block& cell = block(rank, step);
  if (cell.remaining.load(std::memory_order_acquire) == 0) return true;
  const std::int64_t start = cell.begin.load(std::memory_order_acquire);
  if (cell.step.load(std::memory_order_acquire) != step) return true;  // read last: it was written first
  if (begin != nullptr) *begin = start;
  return false;
}

std::int64_t& Segment::inbox_count(int rank, std::int64_t step) {
  return in_plan<std::int64_t>(rank, layout_->inbox_counts)[step % shape().window];
}
StepCounts& Segment::counts(int rank, std::int64_t step) {
  return in_plan<StepCounts>(rank, layout_->counts)[step % shape().window];
}
StepPlan Segment::plan(int rank, std::int64_t step) {
  const auto count = static_cast<std::size_t>(inbox_count(rank, step));
  const bool evicts = shape().evicts_to_buffer;
  return {step,
          {inbox_rows(rank, step), count},
          {plan_source(rank, step), count},
          {plan_leave(rank, step), count},
          {plan_target(rank, step), count},
          evicts ? std::span<const std::int64_t>(plan_evicted(rank, step), count) : std::span<const std::int64_t>()};
}
char* Segment::plan_cell(int rank, std::int64_t step) {
  return in_plan<char>(rank, layout_->plans) + step % shape().window * shape().plan().bytes;
}
std::int64_t* Segment::inbox_rows(int rank, std::int64_t step) {
  return reinterpret_cast<std::int64_t*>(plan_cell(rank, step) + shape().plan().rows);
}
std::int32_t* Segment::inbox_occurrences(int rank, std::int64_t step) {
  if (shape().plans == 1) return nullptr;
  return in_plan<std::int32_t>(rank, layout_->occurrences) + step % shape().window * shape().max_rows * shape().entries;
}
std::int32_t* Segment::plan_source(int rank, std::int64_t step) {
  return reinterpret_cast<std::int32_t*>(plan_cell(rank, step) + shape().plan().source);
}
RowDestination* Segment::plan_leave(int rank, std::int64_t step) {
  return reinterpret_cast<RowDestination*>(plan_cell(rank, step) + shape().plan().leave);
}
std::int64_t* Segment::plan_target(int rank, std::int64_t step) {
  return reinterpret_cast<std::int64_t*>(plan_cell(rank, step) + shape().plan().target);
}
std::int64_t& Segment::plan_published(int rank, std::int64_t step) {
  return *reinterpret_cast<std::int64_t*>(plan_cell(rank, step) + shape().plan().published);
}
std::int64_t* Segment::plan_evicted(int rank, std::int64_t step) {
  return reinterpret_cast<std::int64_t*>(plan_cell(rank, step) + shape().plan().evicted);
}
std::int64_t& Segment::plan_first_buffer_slot(int rank, std::int64_t step) {
  return *reinterpret_cast<std::int64_t*>(plan_cell(rank, step) + shape().plan().first_buffer_slot);
}
std::span<WriteBack> Segment::requests(int rank, std::uint64_t sequence) {
  const auto ring = static_cast<std::uint64_t>(shape().request_ring), cell = sequence % ring;
  return {in_plan<WriteBack>(rank, layout_->requests) + cell, static_cast<std::size_t>(ring - cell)};
}
float* Segment::staging(int rank) { return in_plan<float>(rank, layout_->staging); }

void Segment::fail(const std::string& sentence) {
  Header& h = header();
  std::uint32_t none = 0;
  if (h.error_state.compare_exchange_strong(none, 1, std::memory_order_acq_rel)) {
    const std::size_t length = std::min(sentence.size(), sizeof(h.error) - 1);
    std::memcpy(h.error, sentence.data(), length);
    h.error[length] = 0;
    h.error_state.store(2, std::memory_order_release);
  }
  h.gate.notify();
  h.work.notify();
  h.planning.notify();
}

bool Segment::failed() const { return header().error_state.load(std::memory_order_acquire) != 0; }

std::string Segment::error() const {
  if (!failed()) return "";
  for (int i = 0; i < 100; ++i) {
    if (header().error_state.load(std::memory_order_acquire) == 2) return header().error;
    usleep(100);
  }
  return "The engine failed, and who noticed ended before saying why.";
}

void Segment::check_engine_lives() {
  if (header().engine_pid != getpid() && engine_process_.has_ended(header().engine_pid))
    fail("The process that runs the engine has ended.");
}

}  // namespace frugal
