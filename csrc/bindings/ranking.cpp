#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>

#include "bindings/arrays.h"
#include "bindings/bindings.h"
#include "ranking/best_rows.h"
#include "ranking/pair_keys.h"
#include "ranking/ranking.h"

namespace frugal::bindings::evaluation {
namespace {

using Rows = nb::ndarray<const float, nb::ndim<2>, nb::device::cpu>;
using Floats = nb::ndarray<const float, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Integers = nb::ndarray<const std::int64_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Lists = nb::ndarray<const std::int64_t, nb::ndim<2>, nb::c_contig, nb::device::cpu>;

RowsView view(const Rows& rows) {
  require(rows.size() == 0 || rows.shape(1) < 2 || rows.stride(1) == 1,
          "the elements of a row must be next to each other");
  return {rows.data(), static_cast<std::int64_t>(rows.shape(0)), static_cast<std::int64_t>(rows.shape(1)),
          rows.stride(0)};
}

void check_operands(Operation operation, const RowsView& queries, const RowsView& table) {
  require(queries.dim == table.dim, "queries and table must have the same number of columns");
  require(operation != Operation::kModulus || table.dim % 2 == 0, "complex vectors need an even number of columns");
}

void check_ids(const std::int64_t* ids, std::size_t count, std::int64_t limit, const char* what) {
  for (std::size_t i = 0; i < count; ++i) require(ids[i] >= 0 && ids[i] < limit, what);
}

void check_pointers(const Integers& pointers, std::size_t lists, std::size_t items, const char* what) {
  require(pointers.shape(0) == lists + 1 && pointers.data()[0] == 0 &&
              pointers.data()[lists] == static_cast<std::int64_t>(items),
          what);
  for (std::size_t i = 0; i < lists; ++i) require(pointers.data()[i] <= pointers.data()[i + 1], what);
}

template <class Task>
void set_operands(Task& task, Operation operation, const Rows& queries, const Rows& table,
                  const std::optional<Floats>& bias) {
  task.operation = operation;
  task.queries = view(queries);
  task.table = view(table);
  check_operands(operation, task.queries, task.table);
  require(!bias || bias->shape(0) == table.shape(0), "bias must have one entry per row of the table");
  task.bias = bias ? bias->data() : nullptr;
}

nb::tuple count_better_numpy(Operation operation, const Rows& queries, const Rows& table, std::optional<Floats> bias,
                             const Integers& excluded_pointers, const Integers& excluded, const Integers& positives,
                             const Floats& low, const Floats& high, std::optional<Lists> candidates,
                             std::int64_t group) {
  RankingTask task = {};
  set_operands(task, operation, queries, table, bias);
  check_pointers(excluded_pointers, queries.shape(0), excluded.shape(0),
                 "excluded_pointers must be those of a CSR list");
  check_ids(excluded.data(), excluded.shape(0), task.table.rows, "an excluded row is not in the table");
  require(low.shape(0) == high.shape(0), "low and high must have the same length");
  check_pointers(positives, queries.shape(0), low.shape(0), "positives must point into low and high");
  task.excluded = {excluded_pointers.data(), excluded.data()};
  task.positives = positives.data();
  task.low = low.data();
  task.high = high.data();
  if (candidates) {
    require(group >= 1 && candidates->shape(0) * static_cast<std::size_t>(group) >= queries.shape(0),
            "each group of queries needs its list of candidates");
    check_ids(candidates->data(), candidates->size(), task.table.rows, "a candidate is not in the table");
    task.candidates = candidates->data();
    task.candidate_count = static_cast<std::int64_t>(candidates->shape(1));
    task.group = group;
  }
  std::vector<std::int64_t> better(low.shape(0)), thresholds, rows;
  {
    const nb::gil_scoped_release release;
    for (const UncertainPair& pair : count_better(task, better.data())) {
      thresholds.push_back(pair.threshold);
      rows.push_back(pair.row);
    }
  }
  return nb::make_tuple(to_numpy(std::move(better)), to_numpy(std::move(thresholds)), to_numpy(std::move(rows)));
}

nb::tuple best_rows_numpy(Operation operation, const Rows& queries, const Rows& table, std::optional<Floats> bias,
                          std::int64_t count, const Floats& slack, float relative_slack) {
  BestRowsTask task = {};
  set_operands(task, operation, queries, table, bias);
  require(count >= 1, "count must be at least 1");
  require(slack.shape(0) == queries.shape(0), "slack must have one entry per query");
  task.count = count;
  task.slack = slack.data();
  task.relative_slack = relative_slack;
  std::vector<std::int64_t> found_queries, found_rows;
  {
    const nb::gil_scoped_release release;
    for (const FoundRow& found : best_rows(task)) {
      found_queries.push_back(found.query);
      found_rows.push_back(found.row);
    }
  }
  return nb::make_tuple(to_numpy(std::move(found_queries)), to_numpy(std::move(found_rows)));
}

nb::ndarray<nb::numpy, double, nb::ndim<1>> pair_keys_numpy(Operation operation, const Rows& queries, const Rows& table,
                                                            const Integers& query_ids, const Integers& row_ids) {
  const RowsView query_rows = view(queries), table_rows = view(table);
  check_operands(operation, query_rows, table_rows);
  require(query_ids.shape(0) == row_ids.shape(0), "query_ids and row_ids must have the same length");
  check_ids(query_ids.data(), query_ids.shape(0), query_rows.rows, "a query id is out of range");
  check_ids(row_ids.data(), row_ids.shape(0), table_rows.rows, "a row id is out of range");
  std::vector<double> keys(query_ids.shape(0));
  {
    const nb::gil_scoped_release release;
    pair_keys(operation, query_rows, table_rows, query_ids.data(), row_ids.data(),
              static_cast<std::int64_t>(keys.size()), keys.data());
  }
  return to_numpy(std::move(keys));
}

}  // namespace

void bind(nb::module_& module) {
  nb::enum_<Operation>(module, "Operation", "How a query vector and a row combine into a key; larger is better.")
      .value("DOT", Operation::kDot)
      .value("L2", Operation::kL2)
      .value("L1", Operation::kL1)
      .value("MODULUS", Operation::kModulus);
  module.def("count_better", &count_better_numpy, "operation"_a, "queries"_a, "table"_a, "bias"_a.none(),
             "excluded_pointers"_a, "excluded"_a, "positives"_a, "low"_a, "high"_a, "candidates"_a.none() = nb::none(),
             "group"_a = 1,
             "Counts per threshold the rows with a float32 key above `high`; also returns the pairs (threshold, row) "
             "whose key is between `low` and `high`. See csrc/ranking/ranking.h.");
  module.def("best_rows", &best_rows_numpy, "operation"_a, "queries"_a, "table"_a, "bias"_a.none(), "count"_a,
             "slack"_a, "relative_slack"_a,
             "Pairs (query, row) among which the `count` best rows of each query certainly are. See best_rows.h.");
  module.def("pair_keys", &pair_keys_numpy, "operation"_a, "queries"_a, "table"_a, "query_ids"_a, "row_ids"_a,
             "Keys of pairs in float64, (n,), the same bits on every machine. ValueError for an id out of range.");
}

}  // namespace frugal::bindings::evaluation
