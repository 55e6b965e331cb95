// Elements of rows by their names in Python.
#pragma once

#include <string>

#include "bindings/named.h"
#include "memory/row_layout.h"

namespace frugal::bindings {

inline RowElement element_named(const std::string& name) {
  return named<RowElement>({{"fp32", RowElement::kFloat32}, {"fp16", RowElement::kFloat16},
                            {"bf16", RowElement::kBfloat16}},
                           name, "element of a row");
}

inline const char* name_of(RowElement element) {
  return element == RowElement::kFloat32 ? "fp32" : element == RowElement::kFloat16 ? "fp16" : "bf16";
}

}  // namespace frugal::bindings
