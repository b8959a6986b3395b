#include "cli/job_watch.h"

#include <algorithm>
#include <thread>

#include "cli/exit_codes.h"
#include "net/server_sent_events.h"

namespace divvy::cli {
namespace {

using namespace std::chrono_literals;
using std::chrono::milliseconds;
using std::chrono::steady_clock;

// The daemon gives a sign of life four times as often.
constexpr milliseconds kSilence = 60s;
// What there is already comes at once.
constexpr milliseconds kCaughtUp = 1s;
constexpr milliseconds kLongestPause = 2s;

std::optional<milliseconds> time_left(const WatchWish& wish) {
  if (!wish.until) return std::nullopt;
  return std::max(std::chrono::ceil<milliseconds>(*wish.until - steady_clock::now()), 0ms);
}

}  // namespace

void Outage::wait() {
  std::this_thread::sleep_for(pause_);
  // The first try again is at once, in silence: a daemon that is restarted is back in no time.
  if (pause_ > 0ms && !said_) {
    session_.say("divvyd does not answer; trying again until it does");
    said_ = true;
  }
  pause_ = pause_ == 0ms ? 100ms : std::min(pause_ * 2, kLongestPause);
}

void Outage::over() {
  if (said_) session_.say("divvyd is back");
  said_ = false;
  pause_ = 0ms;
}

int watch_jobs(const Session& session, const Daemon& daemon, const WatchWish& wish,
               const WatchTakers& takers) {
  net::EventReader reader;
  Outage outage(session);
  bool connected = false;
  for (;;) {
    QueryParts query;
    if (wish.job) query.emplace_back("job", std::to_string(*wish.job));
    if (wish.after > 0) query.emplace_back("after", std::to_string(wish.after));
    if (wish.from_now && !connected) query.emplace_back("from", "now");
    Question question{.method = "GET", .path = "/v1/watch" + write_query(query)};
    if (!reader.last_id().empty()) question.headers["last-event-id"] = reader.last_id();
    question.timeout = wish.follow ? kSilence : kCaughtUp;
    const auto left = time_left(wish);
    if (left) question.timeout = std::min(*question.timeout, std::max(*left, 1ms));

    bool enough = false;
    bool too_late = false;
    const auto reply = daemon.follow(question, [&](std::string_view piece) {
      if (!connected && takers.connected && !takers.connected()) {
        enough = true;
        return false;
      }
      connected = true;
      outage.over();
      const Status read = reader.read(piece, [&](const net::ServerSentEvent& event) {
        const auto answer = Answer::parse(event.data);
        if (answer && !takers.event(*answer)) enough = true;
        return !enough;
      });
      too_late = time_left(wish).value_or(1ms) == 0ms;
      return read.has_value() && !enough && !too_late;
    });
    if (enough) return kExitOk;
    if (too_late || time_left(wish).value_or(1ms) == 0ms) return kExitWaitedTooLong;
    if (reply && !reply->ok()) return session.fail(*reply);
    const bool silent = !reply && reply.error().code == ErrorCode::kTimeout;
    if (!wish.follow && (reply || silent)) return kExitOk;
    const bool known = connected || wish.reached;
    if (!reply && !known && !silent) return session.fail(reply.error());
    if (!silent) outage.wait();
  }
}

}  // namespace divvy::cli
