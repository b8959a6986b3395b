// Jobs and queues: how many wait and run, what is held of what was promised, and how long it took
// until they started. No series has a job's number or name, so their number does not grow with the
// jobs; users are told apart up to Tally::kMostUsers, queues up to Load::kMostQueues.
#include <array>

#include "api/metrics_snapshot.h"

namespace divvy::api {
namespace {

using jobs::QueueLoad;
using jobs::StateCounts;
using jobs::UserLoad;
using jobs::WaitCounts;
using model::JobState;
using Type = Exposition::Type;

constexpr std::array kLiving = {JobState::kQueued, JobState::kStarting, JobState::kRunning,
                                JobState::kStopping, JobState::kSuspended};
constexpr std::array kResults = {JobState::kSucceeded, JobState::kFailed, JobState::kCancelled};

double gpus(std::uint64_t thousandths) { return static_cast<double>(thousandths) / Share::kWhole; }

void add_states(const Labels& labels, const StateCounts& counts, Exposition& out) {
  for (const JobState state : kLiving) {
    Labels with = labels;
    out.add(with.add("state", to_string(state)), counts[state]);
  }
}

void add_results(const Labels& labels, const StateCounts& counts, Exposition& out) {
  for (const JobState state : kResults) {
    Labels with = labels;
    out.add(with.add("result", to_string(state)), counts[state]);
  }
}

void write_all(const MetricsSnapshot& snapshot, Exposition& out) {
  out.begin("divvy_jobs", Type::kGauge, "Jobs that have not ended, by state.");
  add_states({}, snapshot.queue->jobs, out);
  out.begin("divvy_jobs_ended_total", Type::kCounter,
            "Jobs that ended since the daemon was started, by result.");
  add_results({}, snapshot.queue->ended, out);
  out.begin("divvy_queues", Type::kGauge, "Queues that there are.");
  out.add({}, static_cast<std::uint64_t>(snapshot.queue->all_queues));
  out.begin("divvy_queue_pass_seconds", Type::kHistogram,
            "How long the passes took in which the queue decided who starts.");
  out.add({}, snapshot.passes);
}

void write_queues(const jobs::Load& load, Exposition& out) {
  std::vector<Labels> labels;
  labels.reserve(load.queues.size());
  for (const QueueLoad& queue : load.queues) {
    labels.push_back(Labels().add("queue", queue.report.path));
  }
  const auto family = [&](const char* name, Type type, const char* help, auto&& write) {
    out.begin(name, type, help);
    for (std::size_t i = 0; i < labels.size(); ++i) write(labels[i], load.queues[i]);
  };
  const auto gauge = [&](const char* name, const char* help, auto&& read) {
    family(name, Type::kGauge, help, [&](const Labels& label, const QueueLoad& queue) {
      if (const std::optional<double> value = read(queue)) out.add(label, *value);
    });
  };
  family("divvy_queue_jobs", Type::kGauge, "Jobs of the queue that have not ended, by state.",
         [&](const Labels& label, const QueueLoad& queue) { add_states(label, queue.jobs, out); });
  gauge("divvy_queue_oldest_waiting_seconds",
        "How long the job has waited that was submitted first of those that wait; 0: none waits.",
        [&load](const QueueLoad& queue) -> std::optional<double> {
          const WallTime oldest = queue.oldest.value_or(load.at);
          return std::max(std::chrono::duration<double>(load.at - oldest).count(), 0.0);
        });
  gauge("divvy_queue_held_gpus", "GPUs, or parts of them, that jobs of the queue hold.",
        [](const QueueLoad& queue) { return gpus(queue.report.held.share); });
  gauge("divvy_queue_held_memory_bytes", "GPU memory that jobs of the queue hold.",
        [](const QueueLoad& queue) { return static_cast<double>(queue.report.held.memory); });
  gauge("divvy_queue_borrowed_gpus", "What of the held GPUs is beyond the quota.",
        [](const QueueLoad& queue) { return gpus(queue.report.borrowed); });
  gauge("divvy_queue_quota_gpus", "GPUs that the queue is promised; only where it has a quota.",
        [](const QueueLoad& queue) -> std::optional<double> {
          if (!queue.report.quota.share) return std::nullopt;
          return gpus(queue.report.quota.share->thousandths());
        });
  gauge("divvy_queue_quota_memory_bytes",
        "GPU memory that the queue is promised; only where it has such a quota.",
        [](const QueueLoad& queue) -> std::optional<double> {
          if (!queue.report.quota.memory) return std::nullopt;
          return static_cast<double>(queue.report.quota.memory->count());
        });
  gauge("divvy_queue_limit_gpus",
        "GPUs that the queue may hold, own and borrowed; only where that is limited.",
        [](const QueueLoad& queue) -> std::optional<double> {
          const auto most =
              queue.report.may_borrow ? queue.report.most_share : queue.report.quota.share;
          if (!most) return std::nullopt;
          return gpus(most->thousandths());
        });
  gauge("divvy_queue_limit_jobs",
        "Jobs of the queue that may run at one time; only where that is limited.",
        [](const QueueLoad& queue) -> std::optional<double> { return queue.report.quota.jobs; });
  gauge("divvy_queue_fair_share_usage_gpu_seconds",
        "GPU time that counts for the fair share; what was used in the past fades.",
        [](const QueueLoad& queue) { return queue.report.used_gpu_hours * 3'600; });
  gauge("divvy_queue_fair_share_score", "Among sister queues the one with the lowest goes first.",
        [](const QueueLoad& queue) { return queue.report.score; });
  family("divvy_queue_jobs_ended_total", Type::kCounter,
         "Jobs of the queue that ended since the daemon was started, by result.",
         [&](const Labels& label, const QueueLoad& queue) {
           add_results(label, queue.past.ended, out);
         });
  family("divvy_queue_wait_seconds", Type::kHistogram,
         "How long jobs of the queue waited from their submission until they ran first.",
         [&](const Labels& label, const QueueLoad& queue) {
           const WaitCounts& waits = queue.past.waits;
           out.add(label, WaitCounts::kEndsInSeconds, waits.buckets, waits.sum_s);
         });
}

void write_users(const jobs::Load& load, Exposition& out) {
  std::vector<Labels> labels;
  labels.reserve(load.users.size());
  for (const UserLoad& user : load.users) labels.push_back(Labels().add("user", user.name));
  const auto family = [&](const char* name, Type type, const char* help, auto&& write) {
    out.begin(name, type, help);
    for (std::size_t i = 0; i < labels.size(); ++i) write(labels[i], load.users[i]);
  };
  family("divvy_user_jobs", Type::kGauge, "Jobs of the user that have not ended, by state.",
         [&](const Labels& label, const UserLoad& user) { add_states(label, user.jobs, out); });
  family("divvy_user_held_gpus", Type::kGauge,
         "GPUs, or parts of them, that jobs of the user hold.",
         [&](const Labels& label, const UserLoad& user) { out.add(label, gpus(user.held.share)); });
  family("divvy_user_held_memory_bytes", Type::kGauge, "GPU memory that jobs of the user hold.",
         [&](const Labels& label, const UserLoad& user) { out.add(label, user.held.memory); });
  family("divvy_user_jobs_ended_total", Type::kCounter,
         "Jobs of the user that ended since the daemon was started, by result.",
         [&](const Labels& label, const UserLoad& user) { add_results(label, user.ended, out); });
}

}  // namespace

void write_queue_metrics(const MetricsSnapshot& snapshot, Exposition& out) {
  if (!snapshot.queue) return;
  write_all(snapshot, out);
  write_queues(*snapshot.queue, out);
  write_users(*snapshot.queue, out);
}

}  // namespace divvy::api
