// Removes what nobody needs any more: jobs that ended long ago, with their output, and output of
// ended jobs where there is too much of it. In the background and in small steps, so that nobody
// waits for it. What was used stays in the books for the fair share (store/usage_table.h).
//
// Output goes first and the job after it: whatever moment the daemon is killed in, the next step
// finds the rest. A job that another one waits for stays.
//
// The methods may be called from any thread.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <thread>

#include "agent/agents.h"
#include "base/clock.h"
#include "base/result.h"
#include "base/units.h"
#include "model/job_spec.h"
#include "store/database.h"

namespace divvy::control {

class Retention {
 public:
  // Zero means without end, each.
  struct Rules {
    model::Seconds keep{0};       // that jobs are kept after their end
    std::uint32_t most_jobs = 0;  // ended ones, of which the last are kept
    Bytes most_logs{};            // output of ended jobs, of which the newest is kept
  };

  // What it refers to outlives it.
  Retention(store::Database& database, const agent::Agents& agents, const Clock& clock,
            Rules rules);
  ~Retention();
  Retention(const Retention&) = delete;
  Retention& operator=(const Retention&) = delete;

  // Looks now and then, from now on, in a thread of its own.
  void begin();
  // Looked at again at once.
  void set_rules(Rules rules);
  [[nodiscard]] Rules rules() const;

  // A few jobs; answers how many of them lost something. Not in two threads at once.
  [[nodiscard]] Result<std::size_t> step();

 private:
  void run();
  [[nodiscard]] Result<std::size_t> remove_jobs(const Rules& rules);
  [[nodiscard]] Result<std::size_t> remove_logs(const Rules& rules);
  // Success: it has no output any more.
  [[nodiscard]] Status forget(const model::MemberKey& key);

  store::Database& database_;
  const agent::Agents& agents_;
  const Clock& clock_;
  mutable std::mutex mutex_;  // of what follows
  std::condition_variable changed_;
  Rules rules_;
  bool look_now_ = false;
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace divvy::control
