// Who watches a member's output as it comes. Nobody holds the member up: whoever does not read in
// time is dropped and told so. Owned by a shepherd, in its only thread.
#pragma once

#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/unique_fd.h"
#include "run/log_record.h"

namespace divvy::run {

class Attachments {
 public:
  // The ends that the other side reads.
  struct Ends {
    UniqueFd output;
    UniqueFd error;
  };
  // `connection` names the one who asked.
  [[nodiscard]] Result<Ends> add(int connection);
  void remove(int connection);
  [[nodiscard]] bool has(int connection) const;
  [[nodiscard]] std::vector<int> connections() const;

  // Answers the connections that could not take it, which are no longer attached.
  [[nodiscard]] std::vector<int> write(LogStream stream, std::string_view bytes);

 private:
  struct Attachment {
    int connection = -1;
    UniqueFd output;
    UniqueFd error;
  };
  std::vector<Attachment> attachments_;
};

}  // namespace divvy::run
