#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <optional>

#include "bindings/arrays.h"
#include "bindings/bindings.h"
#include "bindings/loss_spec.h"
#include "bindings/named.h"
#include "step/shape.h"
#include "step/train_step.h"
#include "store/step_rows.h"
#include "table/host_table.h"

namespace frugal::bindings::step {
namespace {

// The rows of some ids of a table.
std::vector<float*> rows_of(HostTable& table, const std::vector<std::int64_t>& ids, std::int64_t dim,
                            const char* what) {
  table.layout().require_floats();
  if (table.layout().dim != dim)
    throw std::invalid_argument(std::string(what) + " table has rows of another length than the model");
  if (!ids.empty() && (ids.front() < 0 || ids.back() >= table.rows()))  // ascending
    throw nb::index_error((std::string(what) + " ids must lie in the table").c_str());
  std::vector<float*> rows(ids.size());
  for (std::size_t i = 0; i < ids.size(); ++i) rows[i] = table.row(ids[i]);
  return rows;
}

// The rows of a running step, in the order of the batch's distinct ids.
RowPointers running(const StepRows& rows, const std::vector<std::int64_t>& ids, std::int64_t dim, const char* what) {
  rows.layout().require_floats();
  if (rows.layout().dim != dim)
    throw std::invalid_argument(std::string(what) + " rows have another length than the model's");
  if (!std::ranges::equal(rows.rows(), ids))
    throw std::invalid_argument(std::string(what) + " rows are not those of the batch");
  return {rows.source().data(), rows.destination().data(), rows.gradient().data(), rows.layout().stride,
          rows.early().data()};
}

// Where Python supplies what other ranks have; all losses are computed here.
class CalledRanks final : public ColumnRanks {
 public:
  explicit CalledRanks(const std::optional<nb::callable>& add) : add_(add) {}
  void reduce_scatter(float* values, std::int64_t positives, std::int64_t width, std::int64_t common) override {
    const auto count = static_cast<std::size_t>(positives * width + common);
    (*add_)(nb::ndarray<nb::numpy, float, nb::ndim<1>>(values, {count}, nb::capsule(values, [](void*) noexcept {})));
  }

 private:
  const std::optional<nb::callable>& add_;
};

void require_projections(const TrainStep& step, bool given) {
  if (step.model().projected() != given)
    throw std::invalid_argument(given ? "this model has no projections" : "this model needs projections");
}

// The rows of a batch that lie in host tables.
struct TableRows {
  std::vector<float*> entities, relations, projections;

  TableRows(const TrainStep& step, const Batch& batch, HostTable& entity_table, HostTable& relation_table,
            HostTable* projection_table) {
    require_projections(step, projection_table != nullptr);
    const ModelSpec& spec = step.model().spec();
    entities = rows_of(entity_table, batch.entities, spec.entity_dim, "entity");
    relations = rows_of(relation_table, batch.relations, spec.relation_dim, "relation");
    if (projection_table)
      projections = rows_of(*projection_table, batch.relations, spec.entity_dim * spec.relation_dim, "projection");
  }
  StepPointers pointers() const {
    const auto in_place = [](const std::vector<float*>& rows) { return RowPointers{rows.data(), rows.data()}; };
    return {in_place(entities), in_place(relations), in_place(projections)};
  }
};

// A new (rows, columns) array, filled by write(row, where).
template <typename Write>
nb::object make_matrix(std::int64_t rows, std::int64_t columns, Write write) {
  std::vector<float> values(rows * columns);
  for (std::int64_t i = 0; i < rows; ++i) write(i, values.data() + i * columns);
  return nb::cast(to_numpy(std::move(values))).attr("reshape")(rows, columns);
}

nb::object copy_rows(const BufferRows& rows, std::int64_t count, std::int64_t columns) {
  return make_matrix(count, columns, [&](std::int64_t i, float* out) { std::copy_n(rows[i], columns, out); });
}

nb::dict gradients_of(const TrainStep& step, const Batch& batch) {
  const EdgeGradients& g = step.gradients();
  const std::int64_t positives = batch.positives(), entity = step.model().spec().entity_dim,
                     relation = step.model().spec().relation_dim;
  nb::dict out;
  out["head"] = copy_rows(g.head, positives, entity);
  out["tail"] = copy_rows(g.tail, positives, entity);
  out["negative"] = copy_rows(g.negative, static_cast<std::int64_t>(batch.negative.size()), entity);
  out["relation"] =
      make_matrix(positives, relation, [&](std::int64_t i, float* row) {
        step.model().expand(g.relation[i], 0, relation, row);
      });
  if (step.model().projected()) {
    out["projection"] = make_matrix(positives, entity * relation, [&](std::int64_t i, float* row) {
      const float* factors = g.projection_factors[i];
      for (std::int64_t k = 0; k < entity * relation; ++k)
        row[k] = factors[k / relation] * factors[entity + k % relation];
    });
    out["projection_of_negatives"] = copy_rows(g.projection, positives, entity * relation);
  }
  return out;
}

// config: a StepConfig of dglke_frugal/training/step/step_config.py.
ModelSpec model_spec(nb::handle config) {
  return {nb::cast<std::string>(config.attr("model")),
          nb::cast<std::int64_t>(config.attr("entity_dim")),
          nb::cast<std::int64_t>(config.attr("relation_dim")),
          nb::cast<float>(config.attr("gamma")),
          nb::cast<float>(config.attr("embedding_range")),
          named<ScoreRule>({{"textbook", ScoreRule::kTextbook}, {"dglke", ScoreRule::kDglke}},
                           nb::cast<std::string>(config.attr("score_rule")), "score rule")};
}

}  // namespace

void bind(nb::module_& module) {
  module.attr("ROW_MODELS") = nb::cast(row_model_names());  // models that devices have kernels for

  nb::class_<StepLosses>(module, "StepLosses", "What one step reports: means over its positives, as DGL-KE logs them.")
      .def_ro("positive", &StepLosses::positive)
      .def_ro("negative", &StepLosses::negative)
      .def_ro("regularization", &StepLosses::regularization)
      .def_ro("total", &StepLosses::total, "What is differentiated, regularization included.");

  nb::class_<TrainStep>(module, "TrainStep", "Forward, gradients and update of one batch on the CPU. See csrc/step.")
      .def(
          "__init__",
          [](TrainStep* self, nb::handle config, int threads) {
            new (self) TrainStep(model_spec(config), bindings::loss_spec(config.attr("loss")),
                                 nb::cast<float>(config.attr("learning_rate")),
                                 nb::cast<bool>(config.attr("degree_negatives")), threads, frugal::kernels());
          },
          "config"_a, "threads"_a, "threads: of its own, the caller included.")
      .def(
          "run_in_place",
          [](TrainStep& step, const Batch& batch, HostTable& entities, HostTable& relations, HostTable* projections) {
            const TableRows rows(step, batch, entities, relations, projections);
            const nb::gil_scoped_release release;
            return step.run(batch, rows.pointers());
          },
          "batch"_a, "entities"_a, "relations"_a, "projections"_a.none() = nb::none(),
          "Trains on the rows of host tables. IndexError for a wrong id.")
      .def(
          "run_rows",
          [](TrainStep& step, const Batch& batch, const StepRows& entities, const StepRows& relations,
             const StepRows* projections, const std::optional<nb::callable>& early_done) {
            require_projections(step, projections != nullptr);
            const ModelSpec& spec = step.model().spec();
            StepPointers rows{running(entities, batch.entities, spec.entity_dim, "entity"),
                              running(relations, batch.relations, spec.relation_dim, "relation"),
                              {}};
            if (projections)
              rows.projections =
                  running(*projections, batch.relations, spec.entity_dim * spec.relation_dim, "projection");
            std::function<void()> done;
            if (early_done)
              done = [&] {
                const nb::gil_scoped_acquire acquire;
                (*early_done)();
              };
            const nb::gil_scoped_release release;
            return step.run(batch, rows, done);
          },
          "batch"_a, "entities"_a, "relations"_a, "projections"_a.none() = nb::none(), "early_done"_a = nb::none(),
          "Trains on the running step's rows, which must be the batch's. early_done: called when relations, "
          "projections and the early ones of the entities are done, before the other entities are updated.")
      .def(
          "differentiate",
          [](TrainStep& step, const Batch& batch, HostTable& entities, HostTable& relations, HostTable* projections,
             const std::optional<nb::callable>& add_columns) {
            const TableRows rows(step, batch, entities, relations, projections);
            CalledRanks ranks(add_columns);
            const StepLosses losses = step.differentiate(batch, rows.pointers(), add_columns ? &ranks : nullptr);
            return nb::make_tuple(losses, gradients_of(step, batch));
          },
          "batch"_a, "entities"_a, "relations"_a, "projections"_a.none() = nb::none(),
          "add_columns"_a.none() = nb::none(),
          "Losses and gradients of a batch, without regularization; the tables stay as they are. The gradients are "
          "float32 arrays by what they are gradients of: head, tail (B, entity_dim), negative (N, entity_dim), "
          "relation (B, relation_dim), and for TransR projection and projection_of_negatives (B, entity_dim * "
          "relation_dim). add_columns: of tables that have some columns of the whole ones, replaces the raw scores "
          "(n,) that it is given by those of all columns.")
      .def(
          "buffer_bytes",
          [](TrainStep& step, std::int64_t positives, std::int64_t chunk_size, std::int64_t negatives_per_chunk) {
            return static_cast<std::int64_t>(sizeof(float)) *
                   step.buffer_floats({positives, chunk_size, negatives_per_chunk, step.degree_negatives()});
          },
          "positives"_a, "chunk_size"_a, "negatives_per_chunk"_a,
          "Bytes of the buffers that batches of this size take.")
      .def_prop_ro(
          "phase_seconds",
          [](const TrainStep& step) {
            nb::list seconds;
            for (const auto each : step.phase_nanoseconds()) seconds.append(1e-9 * static_cast<double>(each));
            return seconds;
          },
          "Seconds spent so far in: queries and gathering, scores and loss, gradients of negatives, updates.");
}

}  // namespace frugal::bindings::step
