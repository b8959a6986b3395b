#include "sim/forecast.h"

#include <algorithm>
#include <set>
#include <unordered_map>
#include <utility>

#include "base/check.h"
#include "jobs/queue.h"

namespace divvy::sim {
namespace {

using model::JobState;

// Decisions at one time. A queue that takes back what it decided would never come to rest.
constexpr std::size_t kMostRounds = 1'000;
constexpr std::size_t kFewestPastJobs = 3;

Seconds median(std::vector<Seconds>& lengths) {
  const auto middle = lengths.begin() + static_cast<std::ptrdiff_t>(lengths.size() / 2);
  std::ranges::nth_element(lengths, middle);
  return *middle;
}

std::uint64_t capacity_of(const jobs::Fleet& fleet) {
  std::uint64_t capacity = 0;
  for (const jobs::FleetNode& node : fleet.nodes) {
    if (node.lost || !node.closed.empty()) continue;
    const auto fit = std::ranges::count_if(
        node.gpus, [](const jobs::FleetGpu& gpu) { return !gpu.lost && gpu.resting.empty(); });
    capacity += static_cast<std::uint64_t>(fit) * Share::kWhole;
  }
  return capacity;
}

// The copy of a queue while it is driven.
class Drive {
 public:
  Drive(jobs::Queue& queue, const Lengths& lengths, WallTime begin, const ForecastLimits& limits)
      : queue_(queue), lengths_(lengths), limits_(limits), begin_(begin), now_(begin) {}

  // Those that hold something go on.
  void adopt(const std::vector<model::Job>& jobs) {
    for (const model::Job& job : jobs) {
      index_[job.id] = result.jobs.size();
      ForecastJob& known = result.jobs.emplace_back();
      known.id = job.id;
      known.name = job.spec.name;
      known.owner = job.owner;
      known.queue = job.spec.queue;
      known.waited = job.state == JobState::kQueued;
      known.length = length_of(job, lengths_);
      tracked_.emplace_back();
      if (!is_active(job.state)) continue;
      known.starts = Seconds(0);
      if (job.state == JobState::kStarting) {
        for (const model::JobMember& member : job.members) {
          if (!member.end) queue_.member_started(job.id, job.attempt, member.rank, now_);
        }
      }
      if (known.length.from != LengthFrom::kEndless) end_at(index_[job.id], now_ + left(job));
    }
    hear_all();
  }

  Status run() {
    DIVVY_RETURN_IF_ERROR(settle());
    for (std::uint32_t events = 0;; ++events) {
      const auto next = next_event();
      if (!next) break;
      if (*next - begin_ > limits_.horizon) {
        result.end = ForecastEnd::kHorizon;
        now_ = begin_ + limits_.horizon;
        break;
      }
      if (events == limits_.most_events || limits_.is_over()) {
        result.end = ForecastEnd::kOutOfTime;
        break;
      }
      now_ = std::max(now_, *next);
      end_due();
      DIVVY_RETURN_IF_ERROR(settle());
    }
    result.reached = since_begin();
    for (std::size_t i = 0; i < tracked_.size(); ++i) {
      const Tracked& job = tracked_[i];
      if (job.share != 0) result.held.push_back({i, job.since, result.reached, job.share});
    }
    return {};
  }

  Forecast result;

 private:
  struct Tracked {
    std::optional<WallTime> due;  // its members end then
    std::uint64_t share = 0;      // that it holds
    Seconds since{0};
    std::uint32_t starts = 0;
  };

  [[nodiscard]] Seconds since_begin() const {
    return std::chrono::duration_cast<Seconds>(now_ - begin_);
  }

  // One that runs for longer than assumed is assumed to be in its middle.
  [[nodiscard]] Seconds left(const model::Job& job) const {
    const Seconds length = result.jobs[index_.at(job.id)].length.length;
    if (!job.started || job.state == JobState::kStarting) return length;
    const auto ran = std::max(std::chrono::duration_cast<Seconds>(now_ - *job.started), Seconds(0));
    Seconds rest = ran < length ? length - ran : ran;
    if (job.spec.time_limit) rest = std::min(rest, *job.spec.time_limit - ran);
    return std::max(rest, Seconds(1));
  }

  std::optional<WallTime> next_event() const {
    std::optional<WallTime> next;
    if (!due_.empty()) next = due_.begin()->first;
    if (const auto pass = queue_.next_pass(now_)) {
      const WallTime at = std::chrono::ceil<Seconds>(*pass);
      // What was due now has been looked at.
      if (at > now_) next = next ? std::min(*next, at) : at;
    }
    return next;
  }

  void end_at(std::size_t index, std::optional<WallTime> time) {
    Tracked& job = tracked_[index];
    if (job.due) due_.erase({*job.due, index});
    job.due = time;
    if (time) due_.emplace(*time, index);
  }

  void end_due() {
    while (!due_.empty() && due_.begin()->first <= now_) {
      const std::size_t index = due_.begin()->second;
      end_at(index, std::nullopt);
      const model::Job* const found = queue_.find(result.jobs[index].id);
      if (found == nullptr || !is_active(found->state)) continue;
      const model::Job before = *found;
      const bool told = before.state == JobState::kStopping;
      for (const model::JobMember& member : before.members) {
        if (member.end) continue;
        queue_.member_ended(before.id, before.attempt, member.rank, {now_, 0, told ? 15 : 0, ""},
                            now_);
      }
      hear();
    }
  }

  void hold(std::size_t index, std::uint64_t share) {
    Tracked& job = tracked_[index];
    if (job.share == share) return;
    const Seconds time = since_begin();
    if (job.share != 0 && time > job.since)
      result.held.push_back({index, job.since, time, job.share});
    job.share = share;
    job.since = time;
  }

  void hear_all() {
    for (const auto& [id, index] : index_) hear(id, index);
  }

  void hear() {
    for (const model::JobId id : queue_.take_changes()) {
      if (const auto found = index_.find(id); found != index_.end()) hear(id, found->second);
    }
  }

  void hear(model::JobId id, std::size_t index) {
    const model::Job* const job = queue_.find(id);
    if (job == nullptr) return;
    hold(index, is_active(job->state) ? jobs::held_by(job->members).share : 0);
    if (!is_finished(job->state)) return;
    result.jobs[index].ends = since_begin();
    end_at(index, std::nullopt);
    queue_.forget(id);
  }

  Status settle() {
    for (std::size_t round = 0; round < kMostRounds; ++round) {
      const std::vector<jobs::Decision> decisions = queue_.pass(now_);
      for (const jobs::Decision& decision : decisions) {
        if (const auto* const start = std::get_if<jobs::Start>(&decision)) follow(*start);
        if (const auto* const stop = std::get_if<jobs::Stop>(&decision)) follow(*stop);
      }
      hear();
      if (decisions.empty() || limits_.is_over()) return {};
    }
    return err(ErrorCode::kInternal,
               "the queue does not come to rest after {} s; please report this",
               since_begin().count());
  }

  void follow(const jobs::Start& start) {
    for (const model::JobMember& member : start.members) {
      queue_.member_started(start.job, start.attempt, member.rank, now_);
    }
    const std::size_t index = index_.at(start.job);
    ForecastJob& job = result.jobs[index];
    if (job.starts) {
      ++job.restarts;
    } else {
      job.starts = since_begin();
    }
    if (job.length.from != LengthFrom::kEndless) end_at(index, now_ + job.length.length);
  }

  void follow(const jobs::Stop& stop) {
    const model::Job* const job = queue_.find(stop.job);
    if (job == nullptr || job->state != JobState::kStopping) return;
    const std::size_t index = index_.at(stop.job);
    const WallTime gone = now_ + stop.grace;
    if (!tracked_[index].due || *tracked_[index].due > gone) end_at(index, gone);
    end_due();
  }

  jobs::Queue& queue_;
  const Lengths& lengths_;
  const ForecastLimits& limits_;
  const WallTime begin_;
  WallTime now_;
  std::vector<Tracked> tracked_;  // as the jobs of the result
  std::unordered_map<model::JobId, std::size_t> index_;
  std::set<std::pair<WallTime, std::size_t>> due_;
};

}  // namespace

std::string_view to_string(LengthFrom from) {
  switch (from) {
    case LengthFrom::kExpected:
      return "expected";
    case LengthFrom::kOwner:
      return "owner";
    case LengthFrom::kTimeLimit:
      return "time-limit";
    case LengthFrom::kEverybody:
      return "everybody";
    case LengthFrom::kGuess:
      return "guess";
    case LengthFrom::kEndless:
      return "endless";
  }
  return "guess";
}

std::string_view to_string(ForecastEnd end) {
  switch (end) {
    case ForecastEnd::kAtRest:
      return "at-rest";
    case ForecastEnd::kHorizon:
      return "horizon";
    case ForecastEnd::kOutOfTime:
      return "out-of-time";
  }
  return "at-rest";
}

Length length_of(const model::Job& job, const Lengths& lengths) {
  if (job.spec.holder == model::Holder::kSlice && !job.spec.time_limit) {
    return {Seconds(0), LengthFrom::kEndless};
  }
  Length length;
  const auto owner = lengths.of_owners.find(job.owner);
  if (job.spec.expected) {
    length = {*job.spec.expected, LengthFrom::kExpected};
  } else if (owner != lengths.of_owners.end()) {
    length = {owner->second, LengthFrom::kOwner};
  } else if (job.spec.time_limit) {
    length = {*job.spec.time_limit, LengthFrom::kTimeLimit};
  } else if (lengths.of_everybody) {
    length = {*lengths.of_everybody, LengthFrom::kEverybody};
  } else {
    length = {lengths.otherwise, LengthFrom::kGuess};
  }
  if (job.spec.time_limit) length.length = std::min(length.length, *job.spec.time_limit);
  length.length = std::max(length.length, Seconds(1));
  return length;
}

Lengths learn(std::vector<PastJob> past) {
  Lengths lengths;
  std::map<std::string, std::vector<Seconds>> owners;
  std::vector<Seconds> all;
  for (PastJob& job : past) {
    owners[std::move(job.owner)].push_back(job.took);
    all.push_back(job.took);
  }
  for (auto& [owner, took] : owners) {
    if (took.size() >= kFewestPastJobs) lengths.of_owners[owner] = median(took);
  }
  if (all.size() >= kFewestPastJobs) lengths.of_everybody = median(all);
  return lengths;
}

Result<Forecast> forecast(jobs::Snapshot snapshot, const Lengths& lengths, WallTime now,
                          const ForecastLimits& limits) {
  // Nobody says here that a job was seen at work.
  snapshot.settings.idle = {};
  for (jobs::QueueSettings& queue : snapshot.settings.queues) queue.idle.reset();
  now = std::chrono::ceil<Seconds>(now);
  DIVVY_TRY(queue, jobs::Queue::create(snapshot.settings));
  DIVVY_RETURN_IF_ERROR(queue->set_fleet(snapshot.fleet));
  DIVVY_RETURN_IF_ERROR(queue->restore(snapshot.jobs, snapshot.usage, {}, now));
  Drive drive(*queue, lengths, now, limits);
  drive.result.capacity = capacity_of(snapshot.fleet);
  drive.adopt(snapshot.jobs);
  DIVVY_RETURN_IF_ERROR(drive.run());
  return std::move(drive.result);
}

}  // namespace divvy::sim
