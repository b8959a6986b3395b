// What happened, in the order in which it did, with numbers that only grow: who watches and was cut
// off goes on behind the last number that they saw. A view of a connection.
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

struct EventRow {
  std::uint64_t number = 0;  // Given by the table, from 1
  WallTime at;
  std::string kind;  // "job", or of a machine's GPU: "health", "xid", "cordon", ...
  std::optional<model::JobId> job;
  std::string user;    // Whose it is, or who did it; empty: nobody's
  std::string object;  // Name of the queue, UUID of the GPU, ...
  std::string state;   // After it; empty where there is none
  std::string reason;  // In words
  // Of what happens on a machine:
  std::string node = {};
  std::optional<std::uint32_t> gpu = std::nullopt;  // its index there
  std::string tenant = {};
  friend bool operator==(const EventRow&, const EventRow&) = default;
};

struct EventFilter {
  static constexpr std::uint32_t kMostPerPage = 1000;

  std::uint64_t after = 0;  // Those with a higher number
  enum class About { kJobs, kMachines, kAll };
  About about = About::kJobs;
  std::optional<model::JobId> job = std::nullopt;
  std::optional<std::string> user = std::nullopt;
  std::uint32_t limit = 100;
};

class EventTable {
 public:
  explicit EventTable(Connection& connection) : connection_(connection) {}

  // Answers with the number that it got. Inside the change that the event tells of, so that there
  // is never one without the other.
  [[nodiscard]] Result<std::uint64_t> add(const EventRow& event);
  // Oldest first.
  [[nodiscard]] Result<std::vector<EventRow>> list(const EventFilter& filter);
  // The highest number that was ever given; 0: none.
  [[nodiscard]] Result<std::uint64_t> last();
  // The lowest number that is still there: who saw less has missed some. 0: none is.
  [[nodiscard]] Result<std::uint64_t> first();
  // Forgets all but the newest.
  [[nodiscard]] Status forget_before(WallTime time);
  [[nodiscard]] Status keep(std::uint64_t newest);

 private:
  Connection& connection_;
};

}  // namespace divvy::store
