// The body of a watch: a JSON document on every line, in pieces of any size. Pure; one thread at a
// time.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "kube/api_server.h"

namespace divvy::kube {

class WatchLines {
 public:
  // Objects are a few MB at most: etcd takes no larger ones.
  static constexpr std::size_t kMaxLine = 8U << 20U;

  // Calls `take` for every line that is complete now; false from it: no more is read, and
  // `wanted()` is false. An error is the end of the watch: what the server said in an ERROR line,
  // with the code that api_server.h has for it, or kDataLoss for a line that is none.
  [[nodiscard]] Status read(std::string_view piece, const std::function<bool(WatchEvent)>& take);
  [[nodiscard]] bool wanted() const { return wanted_; }

 private:
  [[nodiscard]] Status read_line(std::string_view line,
                                 const std::function<bool(WatchEvent)>& take);

  std::string begun_;  // A line of which the end is still to come
  bool wanted_ = true;
};

// Documents of the API nest deeper than the parser allows unless it is told.
[[nodiscard]] Result<boost::json::object> parse_document(std::string_view text);

}  // namespace divvy::kube
