#include "sim/scenario_settings.h"

#include "model/name.h"

namespace divvy::sim {
namespace {

constexpr std::int64_t kMostJobs = 1'000'000'000;

// Of GPUs, of their memory and of jobs, each with an option of its own.
Result<jobs::Quota> read_quota(ScenarioLine& line, std::string_view share, std::string_view memory,
                               std::string_view jobs) {
  jobs::Quota quota;
  DIVVY_TRY(gpus, line.share_option(share));
  quota.share = gpus;
  DIVVY_TRY(bytes, line.bytes_option(memory));
  quota.memory = bytes;
  DIVVY_TRY(count, line.number_option(jobs, 0, kMostJobs));
  if (count) quota.jobs = static_cast<std::uint32_t>(*count);
  return quota;
}

Result<std::uint32_t> read_weight(ScenarioLine& line) {
  DIVVY_TRY(weight, line.number_option("weight", 1, 1'000'000));
  return static_cast<std::uint32_t>(weight.value_or(1));
}

}  // namespace

Result<jobs::QueueSettings> read_queue(ScenarioLine& line) {
  jobs::QueueSettings queue;
  DIVVY_TRY(path, line.word("the name of the queue"));
  queue.path = path;
  if (const auto named = model::check_queue_path(path); !named) return line.wrong(named.error());
  DIVVY_TRY(quota, read_quota(line, "quota", "quota-memory", "jobs"));
  queue.quota = quota;
  DIVVY_TRY(borrows, line.yes_or_no("borrow"));
  queue.may_borrow = borrows.value_or(true);
  DIVVY_TRY(most, line.share_option("most"));
  queue.most_share = most;
  DIVVY_TRY(per_user, read_quota(line, "user-most", "user-memory", "user-jobs"));
  queue.per_user = per_user;
  DIVVY_TRY(weight, read_weight(line));
  queue.weight = weight;
  constexpr std::int64_t kHighest = model::JobSpec::kHighestPriority;
  DIVVY_TRY(priority, line.number_option("highest-priority", -kHighest, kHighest));
  if (priority) queue.highest_priority = static_cast<std::int32_t>(*priority);
  return queue;
}

Result<jobs::UserSettings> read_user(ScenarioLine& line) {
  jobs::UserSettings user;
  DIVVY_TRY(name, line.word("the name of the user"));
  user.name = name;
  if (const auto named = model::check_name("user", name); !named) return line.wrong(named.error());
  DIVVY_TRY(most, read_quota(line, "most", "memory", "jobs"));
  user.most = most;
  DIVVY_TRY(weight, read_weight(line));
  user.weight = weight;
  return user;
}

}  // namespace divvy::sim
