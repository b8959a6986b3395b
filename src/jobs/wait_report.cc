#include "jobs/wait_report.h"

#include <algorithm>
#include <map>
#include <set>

#include "base/check.h"
#include "base/counted.h"
#include "base/text.h"
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

// The fleet to try things out on. A copy: policies learn from what they are asked, and nobody's
// question may change what is decided.
struct Trial {
  explicit Trial(const place::Cluster& real) : cluster(real), placer(cluster, simple_policy()) {}
  place::Cluster cluster;
  place::Placer placer;
};

WaitReport said(WaitKind kind, std::string text, std::optional<WallTime> starts = {}) {
  WaitReport report;
  report.kind = kind;
  report.text = std::move(text);
  report.starts = starts;
  return report;
}

// Of those who were told to make way for it.
WaitReport making_room(const QueueView& view, const Claim& claim, WallTime now) {
  const std::size_t victims = claim.victims.size();
  WallTime latest = now;
  for (const model::JobId id : claim.victims) {
    const Holding* const victim = view.holdings.find(id);
    if (victim != nullptr && victim->stop_by) latest = std::max(latest, *victim->stop_by);
  }
  return said(WaitKind::kMakingRoom,
              fmt::format("{} {} way for it", victims, victims == 1 ? "job makes" : "jobs make"),
              latest);
}

// Of a request that finds no place as things are.
WaitReport full(const QueueView& view, const Entry& entry, Trial& trial,
                const place::Request& request, WallTime now) {
  const auto explanation = place::explain(trial.placer, request);
  WaitReport report = said(explanation.never.empty() ? WaitKind::kFull : WaitKind::kNever,
                           place::summary(explanation));
  report.details = place::to_text(explanation, place::Detail::kLong);
  const Head* const head = view.reservations.head(entry.job.id);
  if (report.kind == WaitKind::kNever && entry.job.spec.hold_for_capacity) {
    report.text += "; it is held until a machine can run it (--hold-for-capacity)";
  } else if (head != nullptr && head->since) {
    report.text +=
        view.reservations.kept(entry.job.id, now) != nullptr
            ? "; GPUs that become free are kept for it"
            : fmt::format("; others may pass it: GPUs that become free are kept for it {}",
                          about(*head->since + view.settings.passing - now));
  }
  return report;
}

// Of a request that fits in these spots: then it is behind somebody whose place is kept.
WaitReport behind(const QueueView& view, const Entry& entry, std::span<const model::JobId> line,
                  Trial& trial, std::span<const place::Spot> spots, WallTime now) {
  place::Outlook ahead = view.outlook(now);
  for (const model::JobId id : line) {
    if (id == entry.job.id) break;
    if (const auto* const kept = view.reservations.kept(id, now)) {
      ahead.reservations.push_back(*kept);
    }
  }
  for (const auto& [id, claim] : view.reservations.claims()) {
    ahead.reservations.push_back(view.kept_for(view.book.at(id), claim, now));
  }
  const auto length = longest(entry.job.spec);
  const place::Instant until = length ? ahead.now + length->count() : place::kNever;
  const auto* const delayed = place::delayed_by(trial.cluster, ahead, spots, until);
  if (delayed == nullptr) {
    return said(WaitKind::kNext, "nothing stands in its way: it starts with the next pass", now);
  }
  return said(
      WaitKind::kReservation,
      delayed->start == place::kNever
          ? fmt::format(
                "{} was before it and waits for these GPUs; it was passed as long as may be "
                "(queue.passing)",
                delayed->name)
          : fmt::format("it would delay {}, which starts {}", delayed->name,
                        about(Seconds(delayed->start - ahead.now))));
}

WaitReport why(const QueueView& view, const Entry& entry, std::span<const model::JobId> line,
               Trial& trial, WallTime now) {
  const model::Job& job = entry.job;
  if (job.state == JobState::kSuspended) {
    return said(WaitKind::kSuspended,
                fmt::format("it is suspended; divvy resume {} lets it go on", job.id));
  }
  if (job.state != JobState::kQueued) {
    return said(WaitKind::kNothing,
                fmt::format("it does not wait: it is {}", to_string(job.state)));
  }
  if (entry.waits == Waits::kForOthers || entry.waits == Waits::kInVain) {
    const auto outlook = view.book.dependencies().outlook(job.spec);
    const Entry* const other = outlook.on ? view.book.find(outlook.on->job) : nullptr;
    return said(WaitKind::kDependency,
                other == nullptr
                    ? outlook.text
                    : fmt::format("{}, which is {}", outlook.text, to_string(other->job.state)));
  }
  if (entry.waits == Waits::kLater) {
    return said(WaitKind::kBackOff, "it is tried again after " + counted(job.failures, "failure"),
                std::max(now, *job.not_before));
  }
  if (view.holdings.array_is_full(job)) {
    return said(WaitKind::kArray,
                fmt::format("{} of its array {}, as many as may at one time", job.task->at_once,
                            job.task->at_once == 1 ? "runs" : "run"));
  }
  const auto& claims = view.reservations.claims();
  if (const auto claim = claims.find(job.id); claim != claims.end()) {
    return making_room(view, claim->second, now);
  }
  const Held least = view.least(entry, job.spec.least());
  if (const auto obstacle = view.tree.obstacle(entry.queue, entry.user, least)) {
    return said(WaitKind::kQuota, view.tree.describe(*obstacle, entry.user));
  }
  const auto tree_ahead = view.tree_after_claims();
  if (tree_ahead) {
    if (const auto obstacle = tree_ahead->obstacle(entry.queue, entry.user, least)) {
      return said(WaitKind::kQuota, "others make way for a job that was before it; then " +
                                        tree_ahead->describe(*obstacle, entry.user));
    }
  }
  place::Request request = view.request_for(entry);
  request.members = view.members_allowed(entry, tree_ahead);
  const auto spots = trial.placer.plan(request);
  if (spots.empty()) return full(view, entry, trial, request, now);
  if (const auto obstacle =
          view.tree.obstacle(entry.queue, entry.user, view.held_at(entry, spots))) {
    return said(WaitKind::kQuota, view.tree.describe(*obstacle, entry.user));
  }
  return behind(view, entry, line, trial, spots, now);
}

// Plays on from now: those who run end when they are expected to, those who are before it start in
// order. Nothing where too little is known about how long jobs take.
std::optional<WallTime> guess(const QueueView& view, const Entry& entry,
                              std::span<const model::JobId> line, Trial& trial, WallTime now) {
  std::vector<const Entry*> waiting;
  for (const model::JobId id : line) {
    if (waiting.size() == kJobsAhead) return std::nullopt;
    waiting.push_back(&view.book.at(id));
    if (id == entry.job.id) break;
  }
  QueueTree tree = view.tree;
  // What ends when. What was told to end and is overdue ends next; of one that took longer than was
  // guessed nobody knows when it ends, unless it has a time limit.
  struct Leaver {
    const Entry* entry;
    Held held;
    std::vector<place::HoldingId> places;
  };
  std::multimap<WallTime, Leaver> ends;
  for (const auto& [id, holding] : view.holdings.jobs()) {
    std::optional<WallTime> end = holding.stop_by;
    const auto takes = view.attempts.usual_length(*holding.entry);
    if (!end && takes) {
      const WallTime started = holding.job().started.value_or(now);
      const auto limit = holding.job().spec.time_limit;
      end = started + *takes;
      if (*end <= now) end = limit ? std::optional(started + *limit) : std::nullopt;
    }
    if (!end) continue;
    ends.emplace(std::max(now, *end), Leaver{holding.entry, holding.held, holding.places});
  }
  WallTime time = now;
  for (int step = 0; step < kStepsAhead; ++step) {
    std::set<std::pair<ShapeId, QueueId>> full;
    for (auto next = waiting.begin(); next != waiting.end();) {
      const Entry& other = **next;
      const Held least = view.least(other, other.job.spec.least());
      std::vector<place::Spot> spots;
      if (!full.contains({other.shape, other.queue}) &&
          !tree.obstacle(other.queue, other.user, least)) {
        spots = trial.placer.plan(view.request_for(other));
      }
      if (spots.empty()) {
        full.emplace(other.shape, other.queue);
        // Nobody behind it is counted on to get past it.
        const Head* const head = view.reservations.head(other.job.id);
        if (head != nullptr && head->reservation) break;
        ++next;
        continue;
      }
      if (&other == &entry) return time;
      const Held held = view.held_at(other, spots);
      tree.take(other.queue, other.user, held);
      auto places = place::take_all(trial.cluster, spots, other.job.id.value());
      const auto takes = view.attempts.usual_length(other);
      if (takes) ends.emplace(time + *takes, Leaver{&other, held, std::move(places)});
      next = waiting.erase(next);
    }
    if (ends.empty()) break;
    time = ends.begin()->first;
    while (!ends.empty() && ends.begin()->first == time) {
      const Leaver& leaver = ends.begin()->second;
      tree.give_back(leaver.entry->queue, leaver.entry->user, leaver.held);
      for (const place::HoldingId place : leaver.places) trial.cluster.release(place);
      ends.erase(ends.begin());
    }
  }
  return std::nullopt;
}

}  // namespace

WaitReport report_wait(const QueueView& view, model::JobId job, WallTime now, bool guess_start) {
  const Entry* const found = view.book.find(job);
  if (found == nullptr) return said(WaitKind::kNothing, "it is not known, or it has ended");
  const bool in_line = found->waits == Waits::kInLine;
  const auto ids = in_line ? view.order() : std::vector<model::JobId>{};
  Trial trial(view.fleet.cluster());
  WaitReport report = why(view, *found, ids, trial, now);
  if (in_line) {
    report.in_line = static_cast<std::uint32_t>(ids.size());
    report.place = static_cast<std::uint32_t>(std::ranges::find(ids, job) - ids.begin()) + 1;
    if (guess_start && !report.starts && report.kind != WaitKind::kNever)
      report.starts = guess(view, *found, ids, trial, now);
  }
  return report;
}

}  // namespace divvy::jobs
