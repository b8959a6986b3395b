// What the queue says to those who ask: why a job waits, where it stands in line, when it may
// start.
#include <algorithm>

#include "base/check.h"
#include "base/plural.h"
#include "base/text.h"
#include "jobs/queue.h"
#include "place/explain.h"

namespace divvy::jobs {
namespace {

using model::JobState;

// How far a guess looks ahead: jobs that end or start before it gives up.
constexpr int kStepsAhead = 300;
constexpr std::size_t kJobsAhead = 500;

std::unique_ptr<place::Policy> simple_policy() {
  auto policy = place::make_policy("bestfit");
  DIVVY_CHECK(policy.has_value(), "{}", policy.error().message);
  return *std::move(policy);
}

}  // namespace

// The fleet to try things out on. A copy: policies learn from what they are asked, and nobody's
// question may change what is decided.
struct Queue::Trial {
  explicit Trial(const place::Cluster& real) : cluster(real), placer(cluster, simple_policy()) {}
  place::Cluster cluster;
  place::Placer placer;
};

std::vector<model::JobId> Queue::order() const {
  std::vector<model::JobId> ids;
  ids.reserve(line_.size());
  // As if each found its place at once, because whoever starts goes back behind the others.
  QueueTree tree = tree_;
  Turn turn(line_, tree, shares_);
  while (const auto id = turn.next()) {
    ids.push_back(*id);
    const Entry& entry = jobs_.at(*id);
    tree.take(entry.queue, entry.user, held_of(entry, entry.job.spec.members()));
    turn.started();
  }
  return ids;
}

WaitReport Queue::explain(model::JobId job, WallTime now) { return explain(job, now, true); }

WaitReport Queue::why_it_waits(model::JobId job, WallTime now) { return explain(job, now, false); }

const place::Reservation* Queue::reservation(model::JobId job, WallTime now) const {
  const auto found = jobs_.find(job);
  if (found == jobs_.end() || !is_kept(found->second, now)) return nullptr;
  return &*found->second.reservation;
}

WaitReport Queue::explain(model::JobId job, WallTime now, bool guess_start) {
  Entry* const found = entry(job);
  if (found == nullptr) {
    WaitReport report;
    report.text = "it is not known, or it has ended";
    return report;
  }
  const bool in_line = found->waits == Waits::kInLine;
  const auto ids = in_line ? order() : std::vector<model::JobId>{};
  Trial trial(fleet_.cluster());
  WaitReport report = why(*found, ids, trial, now);
  if (in_line) {
    report.in_line = static_cast<std::uint32_t>(ids.size());
    report.place = static_cast<std::uint32_t>(std::ranges::find(ids, job) - ids.begin()) + 1;
    if (guess_start && !report.starts && report.kind != WaitKind::kNever)
      report.starts = guess(*found, ids, trial, now);
  }
  return report;
}

WaitReport Queue::why(Entry& entry, std::span<const model::JobId> line, Trial& trial,
                      WallTime now) {
  const model::Job& job = entry.job;
  WaitReport report;
  const auto say = [&report](WaitKind kind, std::string text) {
    report.kind = kind;
    report.text = std::move(text);
  };
  if (job.state == JobState::kSuspended) {
    say(WaitKind::kSuspended,
        fmt::format("it is suspended; divvy resume {} lets it go on", job.id));
    return report;
  }
  if (job.state != JobState::kQueued) {
    say(WaitKind::kNothing, fmt::format("it does not wait: it is {}", to_string(job.state)));
    return report;
  }
  if (entry.waits == Waits::kForOthers || entry.waits == Waits::kInVain) {
    const auto outlook = dependencies_.outlook(job.spec);
    const Entry* const other = outlook.on ? this->entry(outlook.on->job) : nullptr;
    say(WaitKind::kDependency, other == nullptr ? outlook.text
                                                : fmt::format("{}, which is {}", outlook.text,
                                                              to_string(other->job.state)));
    return report;
  }
  if (entry.waits == Waits::kLater) {
    say(WaitKind::kBackOff, "it is tried again after " + counted(job.failures, "failure"));
    report.starts = std::max(now, *job.not_before);
    return report;
  }
  if (array_is_full(entry)) {
    say(WaitKind::kArray, fmt::format("{} of its array {}, as many as may at one time",
                                      job.task->at_once, job.task->at_once == 1 ? "runs" : "run"));
    return report;
  }
  if (const auto claim = claims_.find(job.id); claim != claims_.end()) {
    const std::size_t victims = claim->second.victims.size();
    WallTime latest = now;
    for (const model::JobId id : claim->second.victims) {
      const Entry* const victim = this->entry(id);
      if (victim != nullptr && victim->stop_by) latest = std::max(latest, *victim->stop_by);
    }
    say(WaitKind::kMakingRoom,
        fmt::format("{} {} way for it", victims, victims == 1 ? "job makes" : "jobs make"));
    report.starts = latest;
    return report;
  }
  const Held least = held_of(entry, job.spec.least());
  if (const auto obstacle = tree_.obstacle(entry.queue, entry.user, least)) {
    say(WaitKind::kQuota, tree_.describe(*obstacle, entry.user));
    return report;
  }
  const auto tree_ahead = booked_ahead();
  if (tree_ahead) {
    if (const auto obstacle = tree_ahead->obstacle(entry.queue, entry.user, least)) {
      say(WaitKind::kQuota, "others make way for a job that was before it; then " +
                                tree_ahead->describe(*obstacle, entry.user));
      return report;
    }
  }
  place::Request request = request_for(entry);
  request.members = members_allowed(entry, tree_ahead);
  const auto spots = trial.placer.plan(request);
  if (spots.empty()) {
    const auto explanation = place::explain(trial.placer, request);
    say(explanation.never.empty() ? WaitKind::kFull : WaitKind::kNever,
        place::summary(explanation));
    report.details = place::to_text(explanation, place::Detail::kLong);
    if (report.kind == WaitKind::kNever && job.spec.hold_for_capacity) {
      report.text += "; it is held until a machine can run it (--hold-for-capacity)";
    } else if (entry.head_since && is_kept(entry, now)) {
      report.text += "; GPUs that become free are kept for it";
    } else if (entry.head_since) {
      report.text += fmt::format("; others may pass it: GPUs that become free are kept for it {}",
                                 about(*entry.head_since + settings_.passing - now));
    }
    return report;
  }
  if (const auto obstacle = tree_.obstacle(entry.queue, entry.user, held_at(entry, spots))) {
    say(WaitKind::kQuota, tree_.describe(*obstacle, entry.user));
    return report;
  }
  // It fits: then it is behind somebody whose place is kept.
  place::Outlook ahead = outlook(now);
  for (const model::JobId id : line) {
    if (id == job.id) break;
    const Entry& other = jobs_.at(id);
    if (is_kept(other, now)) ahead.reservations.push_back(*other.reservation);
  }
  for (const auto& [id, claim] : claims_) {
    ahead.reservations.push_back(kept_for(id, claim, now));
  }
  const auto length = job.spec.expected ? job.spec.expected : job.spec.time_limit;
  const place::Instant until = length ? ahead.now + length->count() : place::kNever;
  const auto* const delayed = place::delayed_by(trial.cluster, ahead, spots, until);
  if (delayed != nullptr) {
    say(WaitKind::kReservation,
        delayed->start == place::kNever
            ? fmt::format(
                  "{} was before it and waits for these GPUs; it was passed as long as may be "
                  "(queue.passing)",
                  delayed->name)
            : fmt::format("it would delay {}, which starts {}", delayed->name,
                          about(Seconds(delayed->start - ahead.now))));
    return report;
  }
  say(WaitKind::kNext, "nothing stands in its way: it starts with the next pass");
  report.starts = now;
  return report;
}

// What its owner says; otherwise what jobs of that owner took in that queue so far.
std::optional<Seconds> Queue::length(const Entry& entry) const {
  if (entry.job.spec.expected) return entry.job.spec.expected;
  const auto known = lengths_.find({entry.queue, entry.user});
  if (known != lengths_.end()) {
    return Seconds(static_cast<Seconds::rep>(known->second.sum_s / known->second.count) + 1);
  }
  return entry.job.spec.time_limit;
}

// Plays on from now: those who run end when they are expected to, those who are before it start in
// order. Nothing where too little is known about how long jobs take.
std::optional<WallTime> Queue::guess(const Entry& entry, std::span<const model::JobId> line,
                                     Trial& trial, WallTime now) {
  std::vector<const Entry*> waiting;
  for (const model::JobId id : line) {
    if (waiting.size() == kJobsAhead) return std::nullopt;
    waiting.push_back(&jobs_.at(id));
    if (id == entry.job.id) break;
  }
  place::Cluster& cluster = trial.cluster;
  QueueTree tree = tree_;
  // What ends when; what is overdue ends next.
  struct Leaver {
    const Entry* entry;
    Held held;
    std::vector<place::HoldingId> holdings;
  };
  std::multimap<WallTime, Leaver> ends;
  for (const model::JobId id : active_) {
    const Entry& other = jobs_.at(id);
    std::optional<WallTime> end = other.stop_by;
    const auto takes = length(other);
    if (!end && takes) end = other.job.started.value_or(now) + *takes;
    if (end) ends.emplace(std::max(now, *end), Leaver{&other, other.held, other.holdings});
  }
  std::optional<WallTime> starts;
  WallTime time = now;
  for (int step = 0; step < kStepsAhead && !starts; ++step) {
    std::set<std::pair<ShapeId, QueueId>> full;
    for (auto next = waiting.begin(); next != waiting.end() && !starts;) {
      const Entry& other = **next;
      const Held least = held_of(other, other.job.spec.least());
      bool placed = false;
      if (!full.contains({other.shape, other.queue}) &&
          !tree.obstacle(other.queue, other.user, least)) {
        const auto spots = trial.placer.plan(request_for(other));
        placed = !spots.empty();
        if (placed) {
          if (&other == &entry) starts = time;
          const Held held = held_at(other, spots);
          tree.take(other.queue, other.user, held);
          auto holdings = place::take_all(cluster, spots, other.job.id.value());
          const auto takes = length(other);
          if (takes) ends.emplace(time + *takes, Leaver{&other, held, std::move(holdings)});
        }
      }
      if (!placed) full.emplace(other.shape, other.queue);
      // Nobody behind it is counted on to get past it.
      if (!placed && other.reservation) break;
      next = placed ? waiting.erase(next) : std::next(next);
    }
    if (starts || ends.empty()) break;
    time = ends.begin()->first;
    while (!ends.empty() && ends.begin()->first == time) {
      const Leaver& leaver = ends.begin()->second;
      tree.give_back(leaver.entry->queue, leaver.entry->user, leaver.held);
      for (const place::HoldingId holding : leaver.holdings) cluster.release(holding);
      ends.erase(ends.begin());
    }
  }
  return starts;
}

std::optional<Seconds> Queue::idle_left(model::JobId job, WallTime now) const {
  const auto found = jobs_.find(job);
  if (found == jobs_.end()) return std::nullopt;
  return idle_.left(job, tree_.idle(found->second.queue), now);
}

std::vector<QueueReport> Queue::queues() const {
  std::vector<QueueReport> reports;
  for (QueueLoad& queue : load_of_queues()) reports.push_back(std::move(queue.report));
  return reports;
}

std::vector<UserReport> Queue::users() const {
  std::vector<UserReport> reports;
  reports.reserve(tree_.users());
  for (std::uint32_t i = 0; i < tree_.users(); ++i) {
    reports.push_back(
        {tree_.user_name(UserId(i)), tree_.most(UserId(i)), tree_.held_by(UserId(i))});
  }
  std::ranges::sort(reports, {}, &UserReport::name);
  return reports;
}

std::vector<QueueLoad> Queue::load_of_queues() const {
  std::vector<QueueLoad> loads(tree_.size());
  for (const auto& [id, entry] : jobs_) {
    const model::Job& job = entry.job;
    if (is_finished(job.state)) continue;
    for (QueueId i = entry.queue; i != QueueTree::root(); i = tree_.parent(i)) {
      QueueLoad& load = loads[i.value()];
      ++load.jobs[job.state];
      if (job.state != JobState::kQueued) continue;
      load.oldest = std::min(load.oldest.value_or(job.submitted), job.submitted);
    }
  }
  for (std::uint32_t i = 1; i < tree_.size(); ++i) {
    const QueueId queue(i);
    const QueueSettings& settings = tree_.settings(queue);
    QueueReport& report = loads[i].report;
    report.path = settings.path;
    report.quota = settings.quota;
    report.may_borrow = settings.may_borrow;
    report.most_share = settings.most_share;
    report.weight = settings.weight;
    report.time = tree_.time(queue);
    report.held = tree_.held(queue);
    const std::uint64_t promised = settings.quota.share.value_or(Share(0)).thousandths();
    report.borrowed = report.held.share > promised ? report.held.share - promised : 0;
    report.waiting = static_cast<std::uint32_t>(loads[i].jobs[JobState::kQueued]);
    report.used_gpu_hours = shares_.used(queue) / Share::kWhole / 3'600;
    report.score = shares_.score(tree_, queue);
  }
  loads.erase(loads.begin());  // the root
  std::ranges::sort(loads, {},
                    [](const QueueLoad& load) -> const std::string& { return load.report.path; });
  return loads;
}

Load Queue::load(WallTime now) const {
  Load result;
  result.at = now;
  result.ended = tally_.ended();
  result.queues = load_of_queues();
  result.all_queues = result.queues.size();
  result.queues.resize(std::min(result.queues.size(), Load::kMostQueues));
  for (QueueLoad& queue : result.queues) {
    if (const Tally::Past* const past = tally_.past(queue.report.path)) queue.past = *past;
  }
  std::map<std::string_view, UserLoad> users;
  for (const auto& [name, ended] : tally_.users()) users[name].ended = ended;
  std::vector<UserLoad*> user_of(tree_.users());
  for (std::uint32_t i = 0; i < tree_.users(); ++i) {
    const Held& held = tree_.held_by(UserId(i));
    const auto found = users.find(tally_.name_for(tree_.user_name(UserId(i))));
    if (found == users.end()) continue;  // has limits, and never had a job
    user_of[i] = &found->second;
    found->second.held += held;
  }
  for (const auto& [id, entry] : jobs_) {
    if (is_finished(entry.job.state)) continue;
    ++result.jobs[entry.job.state];
    ++user_of[entry.user.value()]->jobs[entry.job.state];
  }
  for (auto& [name, user] : users) {
    user.name = name;
    result.users.push_back(std::move(user));
  }
  return result;
}

}  // namespace divvy::jobs
