#include "kube/accepted_condition.h"

#include "kube/json_view.h"
#include "kube/time_stamp.h"

namespace divvy::kube {

namespace json = boost::json;

json::array accepted_condition(const json::object& before, bool accepted, const std::string& reason,
                               const std::string& message, WallTime now) {
  json::object condition{{"type", "Accepted"},
                         {"status", accepted ? "True" : "False"},
                         {"reason", reason},
                         {"message", message}};
  std::string since = time_stamp(now);
  for (const json::value& one : array_at(before, {"conditions"})) {
    const json::object* const last = one.if_object();
    if (last == nullptr || text_at(*last, {"type"}) != "Accepted") continue;
    if (text_at(*last, {"status"}) != text_at(condition, {"status"})) continue;
    const std::string_view then = text_at(*last, {"lastTransitionTime"});
    if (!then.empty()) since = then;
  }
  condition["lastTransitionTime"] = since;
  return json::array{std::move(condition)};
}

}  // namespace divvy::kube
