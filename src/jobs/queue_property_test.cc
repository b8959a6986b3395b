// Random days at a desk: jobs of every kind come, run, fail and are taken back, GPUs break and come
// back, the daemon dies. Whatever happens, what the queue promises holds after every pass.
#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <map>
#include <set>

#include "jobs/queue.h"
#include "jobs/testing.h"

namespace divvy::jobs {
namespace {

using model::JobId;
using model::JobState;
using model::StopReason;
using testing::at;

// What happens, from numbers that can be made smaller one by one.
struct Event {
  std::uint8_t kind = 0;
  std::uint32_t lot = 0;
};

void showValue(const Event& event, std::ostream& out) {
  out << int{event.kind} << ':' << event.lot;
}

std::vector<Event> any_events() {
  return *rc::gen::container<std::vector<Event>>(
      rc::gen::build<Event>(rc::gen::set(&Event::kind, rc::gen::inRange<std::uint8_t>(0, 23)),
                            rc::gen::set(&Event::lot, rc::gen::arbitrary<std::uint32_t>())));
}

// Draws small numbers from one large one.
class Draw {
 public:
  explicit Draw(std::uint32_t lot) : lots_(lot) {}
  std::uint32_t below(std::uint32_t end) {
    lots_ = lots_ * 6364136223846793005U + 1442695040888963407U;
    return static_cast<std::uint32_t>((lots_ >> 33) % end);
  }
  bool one_in(std::uint32_t count) { return below(count) == 0; }

 private:
  std::uint64_t lots_;
};

const std::vector<std::string> kQueues{"default", "a", "b", "b/c", "b/d"};
const std::vector<std::string> kUsers{"ada", "bob", "cy"};

Settings settings_of_the_day() {
  Settings settings;
  settings.queues = {testing::queue("a", 2000, false), testing::queue("b", 4000),
                     testing::queue("b/c", 2000), testing::queue("b/d")};
  settings.queues[1].most_share = Share(6000);
  settings.queues[3].quota.jobs = 3;
  settings.queues[3].per_user.share = Share(2000);
  settings.users = {{"cy", {Share(3000), gib(250), 4}, 2}};
  settings.idle = {Seconds(400), Seconds(100)};
  settings.half_life = Seconds(600);
  return settings;
}

class Day {
 public:
  // Somebody may ask questions all day long.
  explicit Day(bool asks = true) : queue_(*Queue::create(settings_of_the_day())), asks_(asks) {
    tell_fleet();
  }

  void happen(const Event& event) {
    Draw draw(event.lot);
    switch (event.kind) {
      case 0:
      case 1:
      case 2:
      case 3:
        submit(draw);
        break;
      case 4:
        (void)queue_->cancel(any_job(draw), "ada", now());
        break;
      case 5:
        (void)queue_->suspend(any_job(draw), "ada", now());
        break;
      case 6:
        (void)queue_->resume(any_job(draw), "ada", now());
        break;
      case 7:
      case 8:
      case 9:
        end_somebody(draw);
        break;
      case 10:
        change_fleet(draw);
        break;
      case 11:
        start_goes_wrong(draw);
        break;
      case 12:
        queue_->used(any_job(draw), now());
        break;
      case 13:
        if (draw.one_in(3)) restart();
        break;
      case 14:
        missing_ = draw.one_in(2);
        tell_fleet();
        break;
      case 15:
        settings_.policy = draw.one_in(2) ? "divvy" : "bestfit";
        RC_ASSERT(queue_->set_settings(settings_).has_value());
        break;
      case 16:
        (void)queue_->set_priority(any_job(draw), static_cast<std::int32_t>(draw.below(3)) * 10,
                                   "ada", now());
        break;
      case 17:
      case 18:
        move_for(any_job(draw));
        break;
      case 19:
        fleet_.nodes[1].lost = draw.one_in(2);
        fleet_.nodes[1].not_for.assign(draw.below(2), "bob");
        tell_fleet();
        break;
      default:
        now_s_ += draw.below(120);
    }
    if (asks_) ask(any_job(draw));
    pass();
  }

  // Everything is mended and everybody finishes in time: then every job comes to an end.
  void let_it_end() {
    fleet_ = testing::fleet(2, 4);
    missing_ = false;
    tell_fleet();
    for (int round = 0; round < 400 && !all_finished(); ++round) {
      for (const auto& [id, job] : jobs_) {
        if (job.state == JobState::kSuspended) (void)queue_->resume(id, "ada", now());
      }
      pass();
      for (const JobId id : unfinished()) end_all_members(id, 0);
      now_s_ += 60;
    }
    for (const auto& [id, job] : jobs_) {
      if (!is_finished(job.state)) {
        RC_FAIL(fmt::format("{} is {}: {}", job.id, to_string(job.state),
                            queue_->explain(id, now()).text));
      }
    }
  }

  [[nodiscard]] const std::vector<Decision>& decisions() const { return decisions_; }

 private:
  [[nodiscard]] WallTime now() const { return at(now_s_); }

  void tell_fleet() {
    Fleet seen = fleet_;
    if (missing_) seen.nodes[1].gpus.pop_back();
    RC_ASSERT(queue_->set_fleet(seen).has_value());
  }

  void ask(JobId id) {
    const WaitReport report = queue_->explain(id, now());
    RC_ASSERT(!report.text.empty());
    RC_ASSERT(!report.place || (*report.place >= 1 && *report.place <= report.in_line));
    RC_ASSERT(!report.starts || *report.starts >= now());
    (void)queue_->queues();
    (void)queue_->next_pass(now());
  }

  JobId any_job(Draw& draw) {
    return JobId(1 + draw.below(static_cast<std::uint32_t>(jobs_.size()) + 1));
  }

  [[nodiscard]] std::vector<JobId> unfinished() const {
    std::vector<JobId> ids;
    for (const auto& [id, job] : jobs_) {
      if (!is_finished(job.state)) ids.push_back(id);
    }
    return ids;
  }
  [[nodiscard]] bool all_finished() const { return unfinished().empty(); }

  // Every step of a plan is possible after those before it, and the limits hold afterwards.
  void move_for(JobId id) {
    const auto plan = queue_->plan_moves(id, 3, now());
    if (!plan || !*plan) return;
    for (const Move& move : (*plan)->moves) {
      const model::Job& mover = jobs_.at(move.job);
      RC_ASSERT(mover.spec.preemptible && mover.state == JobState::kRunning);
      RC_ASSERT(queue_->member_moved(move, now()).has_value());
    }
    store();
    check_limits();
  }

  void submit(Draw& draw) {
    constexpr std::array<std::uint32_t, 6> kShares{100, 300, 500, 1000, 1500, 2000};
    const bool gang = draw.one_in(4);
    model::JobSpec spec =
        testing::spec(kShares.at(draw.below(gang ? 4 : 6)), gang ? 2 + draw.below(2) : 1);
    if (gang && draw.one_in(2)) spec.least_members = 1;
    spec.queue = kQueues[draw.below(static_cast<std::uint32_t>(kQueues.size()))];
    spec.priority = static_cast<std::int32_t>(draw.below(3)) * 10;
    spec.preemptible = !draw.one_in(4);
    spec.grace = Seconds(draw.below(40));
    if (draw.one_in(3)) spec.minimum_run = Seconds(draw.below(200));
    if (draw.one_in(2)) spec.expected = Seconds(1 + draw.below(300));
    if (draw.one_in(4)) spec.time_limit = Seconds(30 + draw.below(300));
    if (draw.one_in(3)) spec.retry = {draw.below(3), Seconds(10), Seconds(60)};
    if (draw.one_in(4)) {
      const JobId other = any_job(draw);
      if (jobs_.contains(other)) {
        spec.after = {{other, static_cast<model::DependencyKind>(draw.below(3))}};
      }
    }
    if (draw.one_in(5)) spec.where.nodes = {draw.one_in(2) ? "node0" : "node1"};
    const std::string& owner = kUsers[draw.below(static_cast<std::uint32_t>(kUsers.size()))];
    std::vector<FinishedJob> finished;
    for (const model::Dependency& dependency : spec.after) {
      const model::Job& other = jobs_.at(dependency.job);
      if (!is_finished(other.state)) continue;
      finished.push_back(
          {other.id, other.task ? std::optional(other.task->array) : std::nullopt, other.state});
    }
    if (!queue_->check(spec, owner, finished)) return;
    const JobId first(jobs_.size() + 1);
    const std::uint32_t tasks = draw.one_in(6) ? 3 : 1;
    for (std::uint32_t i = 0; i < tasks; ++i) {
      model::Job job(JobId(first.value() + i), owner, spec, now());
      if (tasks > 1) job.task = model::ArrayTask{first, i, 2};
      queue_->submit(job, now(), i == 0 ? finished : std::vector<FinishedJob>{});
      jobs_.emplace(job.id, std::move(job));
    }
    store();
  }

  void end_all_members(JobId id, int exit_code) {
    const model::Job job = jobs_.at(id);
    for (const model::JobMember& member : job.members) {
      queue_->member_ended(id, job.attempt, member.rank, {now(), exit_code, 0, ""}, now());
    }
    store();
  }

  void end_somebody(Draw& draw) {
    const auto ids = unfinished();
    if (ids.empty()) return;
    const model::Job& job = jobs_.at(ids[draw.below(static_cast<std::uint32_t>(ids.size()))]);
    if (!is_active(job.state)) return;
    const int exit_code = draw.one_in(3) ? 1 : 0;
    if (draw.one_in(2)) return end_all_members(job.id, exit_code);
    const auto rank = draw.below(static_cast<std::uint32_t>(job.members.size()));
    queue_->member_ended(job.id, job.attempt, rank, {now(), exit_code, 0, ""}, now());
  }

  void start_goes_wrong(Draw& draw) {
    for (const JobId id : unfinished()) {
      const model::Job job = jobs_.at(id);
      if (job.state != JobState::kStarting || draw.one_in(2)) continue;
      if (draw.one_in(2)) {
        queue_->start_refused(id, job.attempt, "somebody was faster", now());
      } else {
        queue_->start_failed(id, job.attempt, "no such program", now());
      }
      return;
    }
  }

  void change_fleet(Draw& draw) {
    FleetGpu& gpu = fleet_.nodes[draw.below(2)].gpus[draw.below(4)];
    gpu.lost = draw.one_in(4);
    gpu.resting = gpu.lost || draw.one_in(3) ? "it is broken" : "";
    tell_fleet();
  }

  [[nodiscard]] Share job_share(const model::GpuUuid& uuid) const {
    Share share;
    for (const auto& [id, job] : jobs_) {
      if (!is_active(job.state)) continue;
      for (const model::JobMember& member : job.members) {
        for (const model::Slice& slice : member.slices) {
          if (slice.gpu() == uuid) share += slice.share();
        }
      }
    }
    return share;
  }

  // The daemon dies and comes back with what was written down.
  void restart() {
    std::vector<model::Job> jobs;
    std::vector<FinishedJob> finished;
    for (const auto& [id, job] : jobs_) {
      if (is_finished(job.state)) {
        finished.push_back(
            {id, job.task ? std::optional(job.task->array) : std::nullopt, job.state});
      } else {
        jobs.push_back(job);
      }
    }
    const auto usage = queue_->usage();
    queue_ = *Queue::create(settings_);
    tell_fleet();
    RC_ASSERT(queue_->restore(jobs, usage, finished, now()).has_value());
    stopped_.clear();
  }

  void store() {
    for (const JobId id : queue_->take_changes()) {
      const model::Job* const job = queue_->find(id);
      RC_ASSERT(job != nullptr);
      jobs_.at(id) = *job;
      if (is_finished(job->state)) queue_->forget(id);
    }
  }

  void pass() {
    store();
    const std::map<JobId, model::Job> before = jobs_;
    const auto made = queue_->pass(now());
    store();
    for (const Decision& decision : made) check(decision, before);
    check_limits();
    decisions_.insert(decisions_.end(), made.begin(), made.end());
    // Most members start at once; some are still at it when the next thing happens.
    for (const Start& start : testing::only<Start>(made)) {
      if (start.job.value() % 5 == 0 && start.attempt == 1) continue;
      for (const model::JobMember& member : start.members) {
        queue_->member_started(start.job, start.attempt, member.rank, now());
      }
    }
    store();
  }

  void check(const Decision& decision, const std::map<JobId, model::Job>& before) {
    if (const Start* const start = std::get_if<Start>(&decision)) check_start(*start, before);
    if (const Stop* const stop = std::get_if<Stop>(&decision)) check_stop(*stop, before);
  }

  void check_start(const Start& start, const std::map<JobId, model::Job>& before) {
    const model::Job& job = jobs_.at(start.job);
    RC_ASSERT(before.at(start.job).state == JobState::kQueued);
    RC_ASSERT(start.attempt == before.at(start.job).attempt + 1);
    RC_ASSERT(job.members == start.members);
    RC_ASSERT(start.members.size() >= job.spec.least());
    RC_ASSERT(start.members.size() <= job.spec.members());
    for (const model::JobMember& member : start.members) {
      const FleetNode& node = fleet_.nodes[member.node == "node0" ? 0 : 1];
      RC_ASSERT(!node.lost && std::ranges::find(node.not_for, job.owner) == node.not_for.end());
      for (const std::string& wanted : job.spec.where.nodes) RC_ASSERT(wanted == member.node);
      Share all;
      for (const model::Slice& slice : member.slices) {
        all += slice.share();
        const FleetGpu& gpu = gpu_of(slice.gpu());
        RC_ASSERT(gpu.resting.empty());
        RC_ASSERT(!missing_ || gpu.uuid != fleet_.nodes[1].gpus[3].uuid);
        RC_ASSERT(job_share(gpu.uuid) <= Share(1000));
      }
      RC_ASSERT(all == job.spec.request.share());
    }
    for (const model::Dependency& dependency : job.spec.after) {
      const JobState other = jobs_.at(dependency.job).state;
      switch (dependency.kind) {
        case model::DependencyKind::kSucceeded:
          RC_ASSERT(other == JobState::kSucceeded);
          break;
        case model::DependencyKind::kFailed:
          break;  // Of an array another task may have.
        case model::DependencyKind::kEnded:
          RC_ASSERT(is_finished(other));
      }
    }
  }

  void check_stop(const Stop& stop, const std::map<JobId, model::Job>& before) {
    RC_ASSERT(stopped_.emplace(stop.job, stop.attempt).second);
    if (stop.reason != StopReason::kPreempted && stop.reason != StopReason::kReclaimed) return;
    const model::Job& victim = before.at(stop.job);
    // After a restart it is told once more, whatever it was told for.
    if (victim.state == JobState::kStopping) return;
    RC_ASSERT(victim.spec.preemptible);
    if (victim.spec.minimum_run == Seconds(0)) return;
    RC_ASSERT(victim.started.has_value());
    RC_ASSERT(now() - *victim.started >= victim.spec.minimum_run);
  }

  const FleetGpu& gpu_of(const model::GpuUuid& uuid) const {
    for (const FleetNode& node : fleet_.nodes) {
      for (const FleetGpu& gpu : node.gpus) {
        if (gpu.uuid == uuid) return gpu;
      }
    }
    RC_FAIL("a slice of a GPU that is not there");
  }

  void check_limits() const {
    std::map<model::GpuUuid, std::pair<std::uint64_t, std::uint64_t>> gpus;
    std::map<std::string, Held> queues;
    std::map<std::string, Held> users;
    std::map<JobId, std::uint32_t> arrays;
    std::map<std::string, Held> in_d;
    for (const auto& [id, job] : jobs_) {
      if (!is_active(job.state)) continue;
      Held held{0, 0, 1};
      for (const model::JobMember& member : job.members) {
        for (const model::Slice& slice : member.slices) {
          gpus[slice.gpu()].first += slice.share().thousandths();
          gpus[slice.gpu()].second += slice.memory().count();
          held.share += slice.share().thousandths();
          held.memory += slice.memory().count();
        }
      }
      for (const std::string& queue : kQueues) {
        const bool below = job.spec.queue == queue || job.spec.queue.starts_with(queue + "/");
        if (below) queues[queue] += held;
      }
      users[job.owner] += held;
      if (job.spec.queue == "b/d") in_d[job.owner] += held;
      if (job.task) ++arrays[job.task->array];
    }
    for (const auto& [uuid, sums] : gpus) {
      RC_ASSERT(sums.first <= 1000u);
      RC_ASSERT(sums.second <= gib(100).count());
    }
    RC_ASSERT(queues["a"].share <= 2000u);
    RC_ASSERT(queues["b"].share <= 6000u);
    RC_ASSERT(queues["b/d"].jobs <= 3u);
    for (const auto& [user, held] : in_d) RC_ASSERT(held.share <= 2000u);
    RC_ASSERT(users["cy"].share <= 3000u);
    RC_ASSERT(users["cy"].memory <= gib(250).count());
    RC_ASSERT(users["cy"].jobs <= 4u);
    for (const auto& [array, running] : arrays) RC_ASSERT(running <= 2u);
  }

  Settings settings_ = settings_of_the_day();
  Fleet fleet_ = testing::fleet(2, 4);
  bool missing_ = false;  // the last GPU, as if the driver did not list it
  std::unique_ptr<Queue> queue_;
  bool asks_;
  std::int64_t now_s_ = 1'800'000'000;
  std::map<JobId, model::Job> jobs_;  // as they were written down
  std::set<std::pair<JobId, std::uint32_t>> stopped_;
  std::vector<Decision> decisions_;
};

RC_GTEST_PROP(QueueProperty, LimitsHoldAndEveryJobEndsUnderRandomEvents, ()) {
  Day day;
  for (const Event& event : any_events()) day.happen(event);
  day.let_it_end();
}

RC_GTEST_PROP(QueueProperty, DecisionsAreDeterministicAndQuestionsChangeNothing, ()) {
  const auto events = any_events();
  Day one(true);
  Day two(false);
  for (const Event& event : events) {
    one.happen(event);
    two.happen(event);
  }
  RC_ASSERT(one.decisions() == two.decisions());
}

}  // namespace
}  // namespace divvy::jobs
