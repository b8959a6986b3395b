// What the daemon answered, read field by field. What is missing, or is not what was expected, is
// empty rather than an error: a daemon of another version may say less. A value that shares the
// document; any text is safe to pass. Runs on any thread.
#pragma once

#include <boost/json/fwd.hpp>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace divvy::cli {

// What is said of an answer that is not what this version expects.
[[nodiscard]] Error not_understood(std::string_view why);

class Answer {
 public:
  // Empty, like what is missing.
  Answer() = default;
  // kInternal when it is not JSON: then the other side is no divvyd of ours.
  [[nodiscard]] static Result<Answer> parse(const std::string& text);

  // Of an object; empty when there is no such field.
  [[nodiscard]] Answer operator[](std::string_view name) const;
  [[nodiscard]] std::vector<Answer> items() const;       // of a list
  [[nodiscard]] std::vector<std::string> names() const;  // of the fields of an object

  [[nodiscard]] bool empty() const;  // missing or null
  // Safe for a terminal; numbers as they are written.
  [[nodiscard]] std::string text() const;
  // As it came.
  [[nodiscard]] std::string raw() const;
  [[nodiscard]] std::optional<std::int64_t> number() const;
  [[nodiscard]] bool flag() const;
  [[nodiscard]] std::string json() const;

 private:
  std::shared_ptr<const boost::json::value> document_;
  const boost::json::value* value_ = nullptr;
};

}  // namespace divvy::cli
