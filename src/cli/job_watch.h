// What happens to jobs, as it happens: the daemon's stream of events, taken up again behind the
// last one when it breaks off. Runs on the main thread.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>

#include "cli/answer.h"
#include "cli/session.h"

namespace divvy::cli {

struct WatchWish {
  std::optional<std::uint64_t> job{};  // Only what happens to this one
  std::uint64_t after = 0;             // Behind this number
  bool from_now = false;               // Only what happens from now on
  std::optional<std::chrono::steady_clock::time_point> until{};
  bool follow = true;    // False: only what there is already
  bool reached = false;  // The daemon has answered before: it is an outage also when this fails
};

struct WatchTakers {
  // Called once, when nothing can be missed any more; false: that is enough.
  std::function<bool()> connected = {};
  // False: that is enough.
  std::function<bool(const Answer& event)> event;
};

// Returns the exit status when it was enough, kExitWaitedTooLong when the time was over. An outage
// is said once and waited out; one at the very beginning is an error.
[[nodiscard]] int watch_jobs(const Session& session, const Daemon& daemon, const WatchWish& wish,
                             const WatchTakers& takers);

// How long to wait before the next try to reach the daemon, and saying once that there is an
// outage.
class Outage {
 public:
  explicit Outage(const Session& session) : session_(session) {}
  // It broke off, or could not be reached. Waits a little, longer each time.
  void wait();
  // It is there again.
  void over();

 private:
  const Session& session_;
  std::chrono::milliseconds pause_{0};
  bool said_ = false;
};

}  // namespace divvy::cli
