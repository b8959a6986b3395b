// What stands behind the '?' of a request, as names and values. Any text is safe to pass. Pure.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/result.h"

namespace divvy::api {

// The values are taken out one by one; what is left at the end is a mistake. One thread.
class Query {
 public:
  // "state=running&name=a%20b": each name at most once.
  [[nodiscard]] static Result<Query> parse(std::string_view text);

  [[nodiscard]] std::optional<std::string> text(std::string_view name);
  // "a,b": the pieces; empty where there is nothing.
  [[nodiscard]] std::vector<std::string> list(std::string_view name);
  [[nodiscard]] Result<std::optional<std::uint64_t>> number(std::string_view name);
  [[nodiscard]] Result<bool> flag(std::string_view name);  // "true" or "false"; missing: false
  // One of these; missing: the first.
  [[nodiscard]] Result<std::string> word(std::string_view name,
                                         std::initializer_list<std::string_view> words);
  // "limit", of what a page has; missing: 100, or all that may be.
  [[nodiscard]] Result<std::uint32_t> limit(std::uint32_t most);
  // Milliseconds since 1970.
  [[nodiscard]] Result<std::optional<WallTime>> time(std::string_view name);

  [[nodiscard]] Status nothing_left() const;

 private:
  std::map<std::string, std::string, std::less<>> values_;
  std::vector<std::string> known_;
};

}  // namespace divvy::api
