// Enumerators by the names that Python gives them.
#pragma once

#include <map>
#include <stdexcept>
#include <string>

namespace frugal {

// The value of `name`. Throws std::invalid_argument with the names that there are; what: the kind of thing, for the
// message.
template <class T>
T named(const std::map<std::string, T>& names, const std::string& name, const char* what) {
  const auto found = names.find(name);
  if (found != names.end()) return found->second;
  std::string known;
  for (const auto& [key, value] : names) known += (known.empty() ? "" : ", ") + key;
  throw std::invalid_argument(std::string("no ") + what + " '" + name + "'; there are " + known);
}

}  // namespace frugal
