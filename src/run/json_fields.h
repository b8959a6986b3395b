// Reading values out of a JSON object with one sentence about the first that is wrong. Inside this
// room only, in the .cc files that know the JSON library.
#pragma once

#include <boost/json.hpp>
#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace divvy::run {

// Any bytes; `of` says what it should have been, for the message.
[[nodiscard]] Result<boost::json::object> parse_object(std::string_view text, std::string_view of);

// Takes fields until one has the wrong type; then everything reads as absent and `status` says so.
class JsonFields {
 public:
  explicit JsonFields(const boost::json::object& object) : object_(object) {}

  void take(std::string_view name, std::string& value);
  void take(std::string_view name, bool& value);
  void take(std::string_view name, std::vector<std::string>& value);
  void take(std::string_view name, std::map<std::string, std::string>& value);
  template <std::integral Number>
  void take(std::string_view name, Number& value) {
    const boost::json::value* found = find(name);
    if (found == nullptr) return;
    boost::json::error_code code;
    const auto number = found->to_number<Number>(code);
    if (code.failed()) return refuse(name, "is not such a number");
    value = number;
  }
  template <typename Value>
  void take(std::string_view name, std::optional<Value>& value) {
    if (find(name) != nullptr) take(name, value.emplace());
  }
  // The object of this name, if there is one.
  [[nodiscard]] const boost::json::object* object(std::string_view name);
  // The objects of a list; none where there is no list.
  [[nodiscard]] std::vector<const boost::json::object*> objects(std::string_view name);

  void refuse(std::string_view name, std::string_view why);
  void adopt(const Status& status) {
    if (status_ && !status) status_ = status;
  }
  [[nodiscard]] const Status& status() const { return status_; }

 private:
  // Nothing when it is absent or null, or when something was wrong before.
  const boost::json::value* find(std::string_view name);

  const boost::json::object& object_;
  Status status_;
};

}  // namespace divvy::run
