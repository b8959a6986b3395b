#include "control/notification.h"

#include <algorithm>
#include <boost/json.hpp>

#include "base/text.h"

namespace divvy::control {
namespace {

namespace json = boost::json;

std::optional<model::JobEnd> end_of(model::JobState state) {
  switch (state) {
    case model::JobState::kSucceeded:
      return model::JobEnd::kSucceeded;
    case model::JobState::kFailed:
      return model::JobEnd::kFailed;
    case model::JobState::kCancelled:
      return model::JobEnd::kCancelled;
    default:
      return std::nullopt;
  }
}

json::value milliseconds(const std::optional<WallTime>& time) {
  if (!time) return nullptr;
  return std::chrono::floor<std::chrono::milliseconds>(time->time_since_epoch()).count();
}

// How the member ended that decided about the gang: the first that failed, or else the first one.
const model::MemberEnd* decisive_end(const model::Job& job) {
  const model::MemberEnd* decisive = nullptr;
  for (const model::JobMember& member : job.members) {
    if (!member.end) continue;
    const bool fails = !member.end->succeeded();
    const bool first = decisive == nullptr || (fails && decisive->succeeded()) ||
                       (fails && member.end->at < decisive->at);
    if (first) decisive = &*member.end;
  }
  return decisive;
}

std::string body_of(const model::Job& job) {
  const model::MemberEnd* const end = decisive_end(job);
  // Reasons have names of programs and of GPUs in them; JSON is UTF-8.
  const std::string reason = job.history.empty() ? "" : job.history.back().reason;
  return json::serialize(json::object{
      {"id", job.id.value()},
      {"name", job.spec.name},
      {"owner", job.owner},
      {"queue", job.spec.queue},
      {"state", to_string(job.state)},
      {"reason", escape_for_terminal(reason)},
      {"exitCode", end == nullptr ? json::value(nullptr) : json::value(end->exit_code)},
      {"signal", end == nullptr ? json::value(nullptr) : json::value(end->signal)},
      {"attempt", job.attempt},
      {"failures", job.failures},
      {"array", job.task ? json::value(job.task->array.value()) : json::value(nullptr)},
      {"arrayIndex", job.task ? json::value(job.task->index) : json::value(nullptr)},
      {"submittedUnixMilliseconds", milliseconds(job.submitted)},
      {"startedUnixMilliseconds", milliseconds(job.started)},
      {"endedUnixMilliseconds", milliseconds(job.ended)}});
}

}  // namespace

std::optional<store::NotificationRow> notification_of(const model::Job& job) {
  const auto end = end_of(job.state);
  if (!end || !job.spec.notify || !job.ended) return std::nullopt;
  const model::Notify& notify = *job.spec.notify;
  if (std::ranges::find(notify.on, *end) == notify.on.end()) return std::nullopt;
  return store::NotificationRow{.job = job.id,
                                .owner = job.owner,
                                .ended = *job.ended,
                                .url = notify.url,
                                .body = body_of(job),
                                .due = *job.ended};
}

}  // namespace divvy::control
