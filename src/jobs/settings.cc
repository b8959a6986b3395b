#include "jobs/settings.h"

#include <set>

#include "base/counted.h"
#include "base/text.h"
#include "model/seconds.h"
#include "place/policy.h"

namespace divvy::jobs {
namespace {

constexpr std::uint32_t kHighestWeight = 1'000'000;
constexpr Seconds kShortestHalfLife{60};
constexpr Seconds kLongestTime{std::chrono::days(3660)};

Status check_idle(const std::string& where, const IdlePolicy& idle) {
  if (idle.after < Seconds(0) || idle.after > kLongestTime) {
    return err(ErrorCode::kOutOfRange, "{}.after: {} s is impossible", where, idle.after.count());
  }
  if (idle.warning < Seconds(0) || idle.warning > idle.after) {
    return err(ErrorCode::kOutOfRange,
               "{}.warning: a warning {} s before the end does not fit into {} s", where,
               idle.warning.count(), idle.after.count());
  }
  return {};
}

Status check_time(const std::string& where, const TimeLimits& time) {
  const auto check = [&where](const char* name, const std::optional<Seconds>& value) -> Status {
    if (!value || (*value >= Seconds(1) && *value <= kLongestTime)) return {};
    return err(ErrorCode::kOutOfRange, "{}{}: {} s is outside of 1 s to {} s", where, name,
               value->count(), kLongestTime.count());
  };
  DIVVY_RETURN_IF_ERROR(check("default_time_limit", time.usual));
  DIVVY_RETURN_IF_ERROR(check("max_time_limit", time.most));
  if (time.usual && time.most && *time.usual > *time.most) {
    return err(ErrorCode::kInvalidArgument,
               "{}default_time_limit: {} is more than the {} that {} "
               "allows",
               where, model::seconds_text(*time.usual), model::seconds_text(*time.most),
               "max_time_limit");
  }
  return {};
}

Status check_weight(const std::string& where, std::uint32_t weight) {
  if (weight >= 1 && weight <= kHighestWeight) return {};
  return err(ErrorCode::kOutOfRange, "{}.weight: {} is outside of 1 to {}", where, weight,
             kHighestWeight);
}

Status check_queue(const QueueSettings& queue) {
  DIVVY_RETURN_IF_ERROR(with_context(model::check_queue_path(queue.path), "queues"));
  const std::string where = "queues." + queue.path;
  DIVVY_RETURN_IF_ERROR(check_weight(where, queue.weight));
  if (queue.most_share && queue.quota.share && *queue.most_share < *queue.quota.share) {
    return err(ErrorCode::kInvalidArgument, "{}.most_share: {} is less than its quota of {}", where,
               *queue.most_share, *queue.quota.share);
  }
  DIVVY_RETURN_IF_ERROR(check_time(where + ".", queue.time));
  if (queue.idle) return check_idle(where + ".idle", *queue.idle);
  return {};
}

}  // namespace

Status check(const Settings& settings) {
  std::set<std::string_view> paths;
  for (const QueueSettings& queue : settings.queues) {
    DIVVY_RETURN_IF_ERROR(check_queue(queue));
    if (!paths.insert(queue.path).second) {
      return err(ErrorCode::kAlreadyExists, "queues.{}: it is there twice", queue.path);
    }
  }
  std::set<std::string_view> users;
  for (const UserSettings& user : settings.users) {
    const std::string where = "users." + escape_for_terminal(user.name);
    DIVVY_RETURN_IF_ERROR(check_weight(where, user.weight));
    if (!users.insert(user.name).second) {
      return err(ErrorCode::kAlreadyExists, "{}: it is there twice", where);
    }
  }
  if (settings.half_life < kShortestHalfLife || settings.half_life > kLongestTime) {
    return err(ErrorCode::kOutOfRange, "half_life: {} s is outside of {} s to {} s",
               settings.half_life.count(), kShortestHalfLife.count(), kLongestTime.count());
  }
  if (settings.passing < Seconds(0) || settings.passing > kLongestTime) {
    return err(ErrorCode::kOutOfRange, "passing: {} s is outside of 0 s to {} s",
               settings.passing.count(), kLongestTime.count());
  }
  DIVVY_RETURN_IF_ERROR(check_time("", settings.time));
  DIVVY_RETURN_IF_ERROR(with_context(place::make_policy(settings.policy), "policy"));
  return check_idle("idle", settings.idle);
}

std::string describe(const Quota& quota) {
  std::vector<std::string> parts;
  if (quota.share) parts.push_back(fmt::format("{} GPU", *quota.share));
  if (quota.memory) parts.push_back(fmt::format("{} of GPU memory", humanize(*quota.memory)));
  if (quota.jobs) parts.push_back(counted(*quota.jobs, "job"));
  if (parts.empty()) return "nothing";
  if (parts.size() == 1) return parts.front();
  const std::string last = parts.back();
  parts.pop_back();
  return fmt::format("{} and {}", fmt::join(parts, ", "), last);
}

}  // namespace divvy::jobs
