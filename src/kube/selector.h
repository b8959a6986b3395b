// Label and field selectors, as the API server understands them: which objects of a collection a
// list or a watch is about. Pure, callable from any thread.
#pragma once

#include <boost/json/fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace divvy::kube {

// All of its conditions hold. "a=b", "a==b", "a!=b", for labels also "a" and "!a", with commas
// between them; "in" and "notin" are refused.
class Selector {
 public:
  [[nodiscard]] static Result<Selector> of_labels(std::string_view text);
  // Fields by their path: "spec.nodeName=gpu-1". One that is not there is empty.
  [[nodiscard]] static Result<Selector> of_fields(std::string_view text);

  [[nodiscard]] bool matches(const boost::json::object& object) const;

 private:
  enum class Test { kEqual, kUnequal, kPresent, kAbsent };
  struct Condition {
    std::string key;
    Test test;
    std::string value;
  };
  static Result<Selector> parse(std::string_view text, bool labels);

  bool labels_ = true;
  std::vector<Condition> conditions_;
};

// A text inside a document by its path ("metadata.name"), or empty.
[[nodiscard]] std::string_view text_at(const boost::json::object& object, std::string_view path);

}  // namespace divvy::kube
