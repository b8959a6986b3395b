// What was held and used, by job and hour: enough for a bill and for the fair share, and no row for
// every second. A view of a connection, made where it is used and on its thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "model/job.h"
#include "store/connection.h"

namespace divvy::store {

// A part of what an attempt of a job used. The daemon adds one every minute or so and at the end
// of the attempt, so that a crash costs a minute of the account.
struct UsageRow {
  WallTime from;  // Belongs to the hour that this lies in
  model::JobId job;
  std::uint32_t attempt = 0;
  std::string owner;
  std::string queue;
  std::uint64_t held = 0;    // Thousandths of a GPU times seconds that it had
  std::uint64_t used = 0;    // Likewise, that it used
  std::uint64_t memory = 0;  // MiB of GPU memory times seconds that it had
  std::uint64_t cpu = 0;     // Milliseconds; booked when a member has ended
};

enum class UsageBy { kUser, kQueue, kJob, kHour };

struct UsageSum {
  std::string name;  // Of the user or queue; the job's id; the hour as seconds since 1970
  std::uint64_t held = 0;
  std::uint64_t used = 0;
  std::uint64_t memory = 0;
  std::uint64_t jobs = 0;  // That had anything
  std::uint64_t cpu = 0;
  friend bool operator==(const UsageSum&, const UsageSum&) = default;
};

struct UsageFilter {
  std::optional<WallTime> since;   // Whole hours: the one that it lies in counts
  std::optional<WallTime> before;  // and of this one only what lies before
  std::optional<std::string> owner;
  std::optional<std::string> queue;  // with the queues below it
  std::optional<model::JobId> job;
};

class UsageTable {
 public:
  explicit UsageTable(Connection& connection) : connection_(connection) {}

  // Adds to what is there for that job, attempt and hour.
  [[nodiscard]] Status add(const UsageRow& row);
  // In the order of their names; jobs and hours by number.
  [[nodiscard]] Result<std::vector<UsageSum>> report(UsageBy by, const UsageFilter& filter);
  // Row by row, oldest first, for the fair share of a daemon that comes back.
  [[nodiscard]] Result<std::vector<UsageRow>> rows(const UsageFilter& filter);
  [[nodiscard]] Status forget_before(WallTime time);

 private:
  Connection& connection_;
};

}  // namespace divvy::store
