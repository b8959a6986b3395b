// Messages about jobs that have ended, each kept from the change of the store that ends its job
// until it was delivered or given up. A view of a connection.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "model/job_spec.h"
#include "store/connection.h"

namespace divvy::store {

struct NotificationRow {
  model::JobId job;
  std::string owner;
  WallTime ended;
  std::string url;
  std::string body;         // JSON, as it is sent
  std::uint32_t tries = 0;  // that failed
  WallTime due;             // not to be sent before
  friend bool operator==(const NotificationRow&, const NotificationRow&) = default;
};

class NotificationTable {
 public:
  explicit NotificationTable(Connection& connection) : connection_(connection) {}

  // There is one message for a job: a second one changes nothing.
  [[nodiscard]] Status add(const NotificationRow& row);
  // The message that failed is tried again then.
  [[nodiscard]] Status put_off(model::JobId job, std::uint32_t tries, WallTime due);
  [[nodiscard]] Status remove(model::JobId job);

  // Who has messages, with when the first of each is due.
  struct Waiting {
    std::string owner;
    WallTime due;
    std::uint64_t messages = 0;
    friend bool operator==(const Waiting&, const Waiting&) = default;
  };
  [[nodiscard]] Result<std::vector<Waiting>> waiting();
  // The one of this owner that was due first; nothing: none is due.
  [[nodiscard]] Result<std::optional<NotificationRow>> next(std::string_view owner, WallTime now);
  // Of one owner: keeps the newest. Answers with how many are gone.
  [[nodiscard]] Result<std::uint64_t> keep(std::string_view owner, std::uint64_t most);

 private:
  Connection& connection_;
};

}  // namespace divvy::store
