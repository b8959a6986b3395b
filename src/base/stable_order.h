// Puts values in order; equal ones keep theirs. The C++ library's own std::stable_sort takes its
// memory from a function that C++20 calls deprecated, and clang refuses that.
#pragma once

#include <algorithm>
#include <functional>
#include <iterator>
#include <list>
#include <vector>

namespace divvy {

template <typename Value, typename Key>
void sort_stably(std::vector<Value>& values, Key key) {
  std::list<Value> sorted(std::make_move_iterator(values.begin()),
                          std::make_move_iterator(values.end()));
  sorted.sort(
      [&key](const Value& a, const Value& b) { return std::invoke(key, a) < std::invoke(key, b); });
  std::ranges::move(sorted, values.begin());
}

}  // namespace divvy
