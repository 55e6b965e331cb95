// Row programs that go column by column: a column of the query takes that column of the positive's fixed entity and
// relation; one of the edge gradients takes that of the positive's rows and of the query's gradient, and one factor
// that all columns share.
//
// Such a program derives from Columnwise<Program>, which makes rows of
//   query(fixed, relation, corrupt_head)
//   factor(saved, score_gradient)
//   gradient(x, query_gradient, factor, corrupt_head): SideColumns, as x.
// Devices also call these by themselves, where a query's gradient is made.
#pragma once

#include "base/linalg/row.h"
#include "models/row_model.h"
#include "models/sides.h"

namespace frugal::FRUGAL_ISA {

// Columns of a positive's rows, or of their gradients.
struct SideColumns {
  Vec fixed, relation, corrupted;
};

template <typename Program>
struct Columnwise {
  FRUGAL_DEVICE static void write_query(const ModelNumbers& model, const Triple& x, bool corrupt_head, float* query) {
    const Sides side(x, corrupt_head);
    for_row(model.entity_dim, [&](std::int64_t i, auto read, auto write) {
      write(query + i, Program::query(read(side.fixed + i), read(x.relation + i), corrupt_head));
    });
  }
  FRUGAL_DEVICE static void backward(const ModelNumbers& model, const Triple& x, bool corrupt_head, float saved,
                                     float score_gradient, const float* query_gradient, const TripleGradient& out) {
    const Sides side(x, corrupt_head);
    const SideGradients to(out, corrupt_head);
    const Vec factor = broadcast(Program::factor(saved, score_gradient));
    for_row(model.entity_dim, [&](std::int64_t i, auto read, auto write) {
      const SideColumns columns = {read(side.fixed + i), read(x.relation + i), read(side.corrupted + i)};
      const SideColumns gradient = Program::gradient(columns, read(query_gradient + i), factor, corrupt_head);
      write(to.fixed + i, gradient.fixed);
      write(to.relation + i, gradient.relation);
      write(to.corrupted + i, gradient.corrupted);
    });
  }
};

template <typename Program>
concept IsColumnwise = __is_base_of(Columnwise<Program>, Program);

}  // namespace frugal::FRUGAL_ISA
