#include "engine/engine.h"

#include <nanobind/ndarray.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <stdexcept>
#include <type_traits>

#include "bindings/arrays.h"
#include "bindings/bindings.h"
#include "bindings/named.h"
#include "bindings/row_elements.h"
#include "cache/static_hot_set.h"
#include "engine/segment.h"
#include "sampler/batch.h"
#include "store/device_lookup.h"
#include "store/lookup.h"

namespace frugal::bindings::engine {
namespace {

template <class T>
using Vector = nb::ndarray<const T, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Table = nb::ndarray<float, nb::ndim<2>, nb::device::cpu>;

template <class SortedLookup>
void register_lookup(EngineClient& client, std::int64_t step, const std::shared_ptr<SortedLookup>& lookup) {
  const nb::gil_scoped_release release;
  client.register_step(step, lookup->rows(), {}, lookup);
}

struct EngineHandle {
  std::unique_ptr<Engine> engine;
  std::shared_ptr<Segment> segment;  // outlives the engine, so that clients and errors can still be asked

  Engine& open() const {
    if (!engine) throw std::runtime_error("The engine is closed.");
    return *engine;
  }
};

// config: a FlushConfig of dglke_frugal/store/rows/flush_config.py, whose fields have the names of EngineConfig's.
EngineConfig config_of(nb::handle config, const RowLayout& layout, std::int64_t rows,
                       std::vector<std::shared_ptr<CachePolicy>> caches, bool on_device) {
  EngineConfig found;
  const auto read = [&](const char* name, auto& field) {
    field = nb::cast<std::remove_reference_t<decltype(field)>>(config.attr(name));
  };
  read("ranks", found.ranks);
  read("same_steps", found.same_steps);
  read("lookahead", found.lookahead);
  read("flush_threads", found.flush_threads);
  read("max_rows_per_step", found.max_rows_per_step);
  read("entries", found.entries);
  read("keeps_reused", found.keeps_reused);
  read("staging_bytes", found.staging_bytes);
  bool owner_transfer = false;
  read("owner_transfer", owner_transfer);
  std::string mode;
  read("mode", mode);
  found.mode = named<FlushMode>({{"direct", FlushMode::kDirect},
                                 {"p2f", FlushMode::kP2F},
                                 {"sync", FlushMode::kSync}},
                                mode, "flush mode");
  found.layout = layout;
  found.rows = rows;
  found.caches = std::move(caches);
  if (on_device) found.run_on_devices(!owner_transfer);
  if (found.same_steps) found.lookahead += kStepsApart;
  return found;
}

void make_engine(EngineHandle* self, const Table& host_rows, std::int64_t dim, std::int64_t state,
                 std::shared_ptr<RowUpdate> update, std::vector<std::shared_ptr<CachePolicy>> caches,
                 nb::handle config, bool on_device, const std::string& element, std::uint64_t seed,
                 std::uint32_t table) {
  if (host_rows.stride(1) != 1) throw std::invalid_argument("each host row must be contiguous");
  EngineConfig engine_config = config_of(config, {dim, host_rows.stride(0), state, bindings::element_named(element)},
                                         static_cast<std::int64_t>(host_rows.shape(0)), std::move(caches), on_device);
  engine_config.rounding = {seed, table};
  engine_config.host_rows = host_rows.data();
  engine_config.update = std::move(update);
  const bool shared = engine_config.ranks > 1;
  auto engine = std::make_unique<Engine>(std::move(engine_config), shared);
  auto segment = engine->segment();
  new (self) EngineHandle{std::move(engine), std::move(segment)};
}

// A cache of which nothing but its size is known, before there is one.
class SizedCache : public CachePolicy {
 public:
  SizedCache(std::int64_t slots, bool is_static) : slots_(slots), is_static_(is_static) {}
  std::int64_t slots() const override { return slots_; }
  bool wants_count() const override { return !is_static_; }
  bool keeps_for_good() const override { return is_static_; }
  void touch(const RowUse&, std::int32_t) override {}
  std::int32_t admit(const RowUse&) override { return kRejected; }
  void release(std::int64_t, std::int32_t) override {}

 private:
  const std::int64_t slots_;
  const bool is_static_;
};

std::int64_t engine_bytes(nb::handle config, std::int64_t rows, std::int64_t dim, std::int64_t state,
                          const std::string& element, bool on_device) {
  const auto policy = nb::cast<std::string>(config.attr("policy"));
  const auto cache = std::make_shared<SizedCache>(nb::cast<std::int64_t>(config.attr("slots")), policy == "static");
  const bool same_steps = nb::cast<bool>(config.attr("same_steps"));
  const std::size_t caches = same_steps ? 1 : static_cast<std::size_t>(nb::cast<int>(config.attr("ranks")));
  return Engine::bytes_of(config_of(config, RowLayout::for_dim(dim, state, element_named(element)), rows,
                                    std::vector<std::shared_ptr<CachePolicy>>(cache->slots() ? caches : 0, cache),
                                    on_device));
}

nb::dict as_dict(const RankStatistics& s) {
  nb::dict d;
  d["steps"] = s.steps;
  d["steps_with_stall"] = s.steps_with_stall;
  d["gate_stall_nanoseconds"] = s.gate_stall_nanoseconds;
  d["peer_wait_nanoseconds"] = s.peer_wait_nanoseconds;
  d["staging_stall_nanoseconds"] = s.staging_stall_nanoseconds;
  d["plan_wait_nanoseconds"] = s.plan_wait_nanoseconds;
  d["cache_reads"] = s.cache_reads;
  d["host_reads"] = s.host_reads;
  d["buffer_reads"] = s.buffer_reads;
  d["values_sent"] = s.values_sent;
  d["gradients_sent"] = s.gradients_sent;
  d["gradient_vectors_sent"] = s.gradient_vectors_sent;
  d["write_backs_sent"] = s.write_backs_sent;
  return d;
}

nb::dict as_dict(const FlushWorkerStatistics& s) {
  nb::dict d;
  d["flushed_rows"] = s.flushed_rows;
  d["flushed_bytes"] = s.flushed_bytes;
  return d;
}

nb::dict statistics(const EngineHandle& self) {
  const EngineStatistics s = self.open().statistics();
  nb::list ranks, workers;
  for (const RankStatistics& rank : s.ranks) ranks.append(as_dict(rank));
  for (const FlushWorkerStatistics& worker : s.workers) workers.append(as_dict(worker));
  nb::dict d;
  d["ranks"] = ranks;
  d["flush_workers"] = workers;
  d["planned_steps"] = s.planned_steps;
  d["planning_nanoseconds"] = s.planning_nanoseconds;
  d["engine_bytes"] = s.engine_bytes;
  return d;
}

// (name, dtype, first byte, length) of each array of a plan's cell.
nb::list plan_fields(const EngineClient& client) {
  const PlanFields fields = client.plan_fields();
  const std::int64_t rows = client.max_rows();
  nb::list found;
  found.append(nb::make_tuple("rows", "int64", fields.rows, rows));
  found.append(nb::make_tuple("source", "int32", fields.source, rows));
  found.append(nb::make_tuple("leave", "uint8", fields.leave, rows));
  found.append(nb::make_tuple("target", "int64", fields.target, rows));
  found.append(nb::make_tuple("published", "int64", fields.published, 1));
  if (fields.evicted >= 0) {
    found.append(nb::make_tuple("evicted", "int64", fields.evicted, rows));
    found.append(nb::make_tuple("first_buffer_slot", "int64", fields.first_buffer_slot, 1));
  }
  return found;
}

nb::tuple write_back_arrays(nb::handle self, std::int64_t step) {
  EngineClient& client = nb::cast<EngineClient&>(self);
  std::span<const WriteBack> requests;
  {
    nb::gil_scoped_release release;
    requests = client.write_backs(step);
  }
  const WriteBack* first = requests.data();
  const std::size_t count = requests.size();
  static_assert(sizeof(WriteBack) % 8 == 0);
  constexpr std::int64_t kStride = sizeof(WriteBack);
  return nb::make_tuple(numpy_view(&first->row, count, self, kStride / 8),
                        numpy_view(&first->slot, count, self, kStride / 4),
                        numpy_view(reinterpret_cast<const std::uint8_t*>(&first->leave), count, self, kStride),
                        numpy_view(&first->target, count, self, kStride / 8));
}

nb::tuple drain(nb::handle self) {
  EngineClient& client = nb::cast<EngineClient&>(self);
  auto cached = std::make_unique<std::vector<CachedRow>>();
  {
    nb::gil_scoped_release release;
    *cached = client.drain();
  }
  const std::vector<CachedRow>& rows = *cached;
  static const CachedRow kNothing{};
  const CachedRow* first = rows.empty() ? &kNothing : rows.data();
  const std::size_t count = rows.size();
  nb::capsule owner(cached.release(), [](void* p) noexcept { delete static_cast<std::vector<CachedRow>*>(p); });
  return nb::make_tuple(numpy_view(&first->row, count, owner, sizeof(CachedRow) / 8),
                        numpy_view(&first->slot, count, owner, sizeof(CachedRow) / 4));
}

}  // namespace

void bind(nb::module_& module) {
  module.attr("STEPS_ON_DEVICE") = kStepsOnDevice;
  module.attr("STEPS_ENQUEUED") = kStepsEnqueued;
  nb::exception<EngineError>(module, "EngineError", PyExc_RuntimeError);

  nb::class_<RowUpdate>(module, "RowUpdate", "How gradients change a row at the host.");
  nb::class_<RowAdagradUpdate, RowUpdate>(module, "RowAdagradUpdate", "Row-wise Adagrad in DGL-KE's order of sums.")
      .def(nb::init<float>(), "learning_rate"_a);

  nb::class_<CachePolicy>(module, "CachePolicy", "Which rows a rank's cache admits and evicts.")
      .def_prop_ro("slots", &CachePolicy::slots);
  nb::class_<StaticHotSet, CachePolicy>(module, "StaticHotSet", "A fixed set of rows, int64 (slots,), never evicted.")
      .def(
          "__init__",
          [](StaticHotSet* self, const Vector<std::int64_t>& rows) {
            new (self) StaticHotSet({rows.data(), rows.size()});
          },
          "rows"_a);

  using Release = nb::call_guard<nb::gil_scoped_release>;
  nb::class_<EngineHandle>(module, "Engine",
                           "The P2F engine over one table: planner and flush threads, until close. See docs/p2f.md.")
      .def("__init__", &make_engine, "host_rows"_a, "dim"_a, "state"_a, "update"_a, "caches"_a, "config"_a,
           "on_device"_a = false, "element"_a = "fp32", "seed"_a = 0, "table"_a = 0, nb::keep_alive<1, 2>(),
           "host_rows: float32 (rows, stride), rows = embedding (dim), state, padding; written in place. caches: one "
           "per rank, one for all ranks that run the same steps, or none. config: a FlushConfig. on_device: "
           "whether steps run on devices, which host threads are ahead of. element: of the "
           "embedding, fp32 or fp16; seed and table: by which such rows are rounded. Ranks of other processes "
           "may attach if there are several.")
      .def(
          "close", [](EngineHandle& self) { self.engine.reset(); }, Release())
      .def(
          "client",
          [](const EngineHandle& self, int rank) {
            return std::shared_ptr<EngineClient>(self.open().make_client(rank));
          },
          "rank"_a)
      .def("statistics", &statistics)
      .def(
          "fail", [](const EngineHandle& self, const std::string& sentence) { self.segment->fail(sentence); },
          "sentence"_a)
      .def_prop_ro("error", [](const EngineHandle& self) { return self.segment->error(); })
      .def_prop_ro("segment_path", [](const EngineHandle& self) { return self.segment->path(); });

  nb::class_<EngineClient>(module, "EngineClient",
                           "One rank's side of the engine; see csrc/engine/engine_client.h for the order of calls.")
      .def(
          "register_step",
          [](EngineClient& self, std::int64_t step, const Vector<std::int64_t>& rows,
             const Vector<std::int32_t>& occurrences) {
            nb::gil_scoped_release release;
            self.register_step(step, {rows.data(), rows.size()}, {occurrences.data(), occurrences.size()});
          },
          "step"_a, "rows"_a, "occurrences"_a)
      .def(
          "register_entities",
          [](EngineClient& self, std::int64_t step, const std::shared_ptr<Batch>& batch) {
            nb::gil_scoped_release release;
            self.register_step(step, batch->entities, {}, batch);
          },
          "step"_a, "batch"_a, "Those of a batch, by a rank that sends no gradients: the planner copies them.")
      .def("register_lookup", &register_lookup<Lookup>, "step"_a, "lookup"_a, "Those of a lookup, likewise.")
      .def("register_lookup", &register_lookup<DeviceLookup>, "step"_a, "lookup"_a, "Of one that a device has sorted.")
      .def("count_from", &EngineClient::count_from, "step"_a,
           "Before the first step: its number in the run, which the engine counts as 0.")
      .def(
          "plan_cell",
          [](nb::handle self, std::int64_t step) {
            EngineClient& client = nb::cast<EngineClient&>(self);
            std::span<const char> cell;
            {
              nb::gil_scoped_release release;
              cell = client.plan_cell(step);
            }
            // Not read-only, as torch wants it; nobody writes.
            auto* const bytes = reinterpret_cast<std::uint8_t*>(const_cast<char*>(cell.data()));
            return nb::ndarray<nb::numpy, std::uint8_t, nb::ndim<1>>(bytes, {cell.size()}, self);
          },
          "step"_a,
          "The plan of a step, with padding, as one stretch of the memory that ranks and engine share: (bytes,) uint8, "
          "until publish. Its arrays lie as plan_fields says, and nobody may change them.")
      .def_prop_ro("planned_steps", &EngineClient::planned_steps,
                   "Steps that are decided: plan_cell waits for no step before.")
      .def_prop_ro("plan_fields", &plan_fields, "(name, dtype, first byte, length) of each array of a plan_cell.")
      .def_prop_ro("plan_cells", &EngineClient::plan_cells,
                   "How many there are: step s has that of s modulo their number.")
      .def_prop_ro("plan_bytes", [](const EngineClient& self) { return self.plan_fields().bytes; })
      .def_prop_ro("max_rows", &EngineClient::max_rows, "Of a step, at most.")
      .def_prop_ro("slots", &EngineClient::slots, "Of this rank's cache.")
      .def("write_backs", &write_back_arrays, "step"_a,
           "(row int64, slot int32, leave uint8, target int64), each (n,).")
      .def(
          "begin",
          [](EngineClient& self, std::int64_t step) {
            self.plan(step);
            return self.write_backs(step).size();
          },
          "step"_a, Release(),
          "Waits for the plan. How many write-backs have to be served before this is called again; 0: wait_gate is "
          "next.")
      .def("wait_gate", &EngineClient::wait_gate, "step"_a, Release())
      .def("publish", &EngineClient::publish, "step"_a, Release())
      .def("drain", &drain, "(row int64, slot int32), each (n,): the cached rows to store into host rows.")
      .def("finish_drain", &EngineClient::finish_drain, Release())
      .def("staging",
           [](nb::handle self) {
             const std::span<float> staging = nb::cast<EngineClient&>(self).staging();
             return nb::ndarray<nb::numpy, float, nb::ndim<1>>(staging.data(), {staging.size()}, self);
           })
      .def(
          "staging_of",
          [](nb::handle self, int rank) {
            const std::span<float> staging = nb::cast<EngineClient&>(self).staging_of(rank);
            return nb::ndarray<nb::numpy, float, nb::ndim<1>>(staging.data(), {staging.size()}, self);
          },
          "rank"_a, "Another rank's, where executors read it.")
      .def(
          "shared_memory",
          [](nb::handle self) {
            const std::span<char> memory = nb::cast<EngineClient&>(self).shared_memory();
            return nb::ndarray<nb::numpy, std::uint8_t, nb::ndim<1>>(memory.data(), {memory.size()}, self);
          },
          "(bytes,) uint8, from a page on: all that ranks and engine share, staging and counters too, which a device "
          "has to register.")
      .def_prop_ro(
          "published_counter",
          [](EngineClient& self) { return reinterpret_cast<std::uintptr_t>(self.published_counter()); },
          "Address of the 64-bit counter that a device may advance instead of publish().")
      .def_prop_ro("write_backs_counter",
                   [](EngineClient& self) { return reinterpret_cast<std::uintptr_t>(self.write_backs_counter()); })
      .def("note_published", &EngineClient::note_published, "step"_a)
      .def("note_write_backs", &EngineClient::note_write_backs, "count"_a)
      .def("statistics", [](const EngineClient& self) { return as_dict(self.statistics()); })
      .def(
          "fail", [](EngineClient& self, const std::string& sentence) { self.fail(sentence.c_str()); }, "sentence"_a)
      .def_prop_ro("rank", &EngineClient::rank)
      .def_prop_ro("ranks", &EngineClient::ranks);

  module.def(
      "engine_bytes", &engine_bytes, "config"_a, "rows"_a, "dim"_a, "state"_a, "element"_a, "on_device"_a,
      "What an Engine of a FlushConfig takes of host memory for a table of this shape: what ranks and engine share, "
      "and the planner's. Not counted: flush threads' records, and a cache policy's own.");
  module.def(
      "plan_bytes", [](std::int64_t rows, bool evicts) { return PlanFields::of(rows, evicts).bytes; }, "rows"_a,
      "evicts"_a, "Of the plan of a step of so many rows; evicts: with what leaves the cache with the step.");
  module.def(
      "attach_rank",
      [](const std::string& path, int rank) { return std::make_shared<EngineClient>(Segment::attach(path), rank); },
      "path"_a, "rank"_a, "The client of a rank in another process than the engine's. Raises RuntimeError.");
}

}  // namespace frugal::bindings::engine
