#include "sim/scenario_run.h"

#include <algorithm>
#include <array>
#include <map>
#include <set>

#include "base/text.h"
#include "place/defrag.h"
#include "sim/scenario_world.h"

namespace divvy::sim {
namespace {

class Play {
 public:
  Play(const Scenario& scenario, ScenarioWorld& world) : scenario_(scenario), world_(world) {}

  Status step(const Step& step) {
    finish_until(step.at);
    world_.pass_to(step.at);
    line_ = step.line;
    if (const auto* expect = std::get_if<Expect>(&step.what)) {
      Checked checked = check_expectation(world_, *expect);
      expectations.push_back({step.line, expect->source, checked.passed, std::move(checked.found)});
      return {};
    }
    DIVVY_CHECK_OK(std::visit([this](const auto& what) { return happen(what); }, step.what));
    world_.schedule();
    return {};
  }

  // Everything that ends by itself until then.
  void finish_until(place::Instant time) {
    for (;;) {
      ScenarioJob* next = nullptr;
      for (ScenarioJob& job : world_.jobs) {
        const auto ends = job.ends();
        if (ends && *ends <= time && (next == nullptr || *ends < *next->ends())) next = &job;
      }
      if (next == nullptr) return;
      world_.pass_to(std::max(world_.now, *next->ends()));
      world_.end(*next, JobState::kDone);
      world_.schedule();
    }
  }

  std::vector<ExpectationOutcome> expectations;

 private:
  template <typename... Args>
  [[nodiscard]] tl::unexpected<Error> wrong(fmt::format_string<Args...> format,
                                            Args&&... args) const {
    return err(ErrorCode::kInvalidArgument, "{}:{}: {}", escape_for_terminal(scenario_.file), line_,
               fmt::format(format, std::forward<Args>(args)...));
  }

  ScenarioJob& job(const std::string& name) { return world_.jobs[world_.index_of(name)]; }

  Status happen(const Wait&) { return {}; }
  Status happen(const Expect&) { return {}; }
  Status happen(const Submit& submit) {
    world_.submit(submit);
    return {};
  }
  Status happen(const Finish& finish) {
    ScenarioJob& finished = job(finish.job);
    if (finished.state != JobState::kRunning) {
      return wrong("job {} is {} and cannot finish; finish it while it runs", finish.job,
                   to_string(finished.state));
    }
    world_.end(finished, JobState::kDone);
    return {};
  }
  Status happen(const Cancel& cancel) {
    ScenarioJob& cancelled = job(cancel.job);
    if (cancelled.ended) return wrong("job {} has ended already", cancel.job);
    world_.end(cancelled, JobState::kCancelled);
    return {};
  }
  Status happen(const SetPriority& change) {
    if (job(change.job).ended) return wrong("job {} has ended already", change.job);
    world_.set_priority(job(change.job), change.priority);
    return {};
  }
  Status happen(const LoseNode& lost) {
    if (!lost_.emplace(lost.node, lost.reason).second) {
      return wrong("node {} is lost already; let it return first", lost.node);
    }
    world_.say({}, "lost", fmt::format("{}: {}", lost.node, lost.reason));
    requeue_from(world_.node(lost.node), place::kMaxDevices, "lost with " + lost.node);
    close_or_open(lost.node);
    return {};
  }
  Status happen(const ReturnNode& returned) {
    if (lost_.erase(returned.node) == 0) {
      return wrong("node {} is not lost; lose it first", returned.node);
    }
    world_.say({}, "returned", returned.node);
    close_or_open(returned.node);
    return {};
  }
  Status happen(const Cordon& cordon) {
    cordoned_[cordon.node] = cordon.reason;
    if (cordon.reason.empty()) {
      world_.say({}, "uncordoned", cordon.node);
    } else {
      world_.say({}, "cordoned", fmt::format("{}: {}", cordon.node, cordon.reason));
    }
    close_or_open(cordon.node);
    return {};
  }
  Status happen(const GpuHealth& health) {
    const place::NodeId node = world_.node(health.node);
    const std::string name = fmt::format("gpu {} of {}", health.gpu, health.node);
    if (health.reason.empty()) {
      world_.say({}, "healthy", name);
    } else {
      world_.say({}, "unhealthy", fmt::format("{}: {}", name, health.reason));
      requeue_from(node, health.gpu, "lost with " + name);
    }
    world_.cluster.set_unusable(node, health.gpu, health.reason);
    return {};
  }
  Status happen(const DefragFor& defrag);

  // Whoever has a member there goes back into the queue; kMaxDevices stands for the whole node.
  void requeue_from(place::NodeId node, std::size_t gpu, const std::string& why) {
    std::set<std::uint64_t> struck;
    for (const place::HoldingId id : world_.cluster.on(node)) {
      const place::Holding& holding = world_.cluster.holding(id);
      const bool there = gpu == place::kMaxDevices || (holding.spot.whole >> gpu & 1) != 0 ||
                         holding.spot.part_device == static_cast<int>(gpu);
      if (there) struck.insert(holding.job);
    }
    for (const std::uint64_t number : struck) {
      world_.requeue(world_.jobs[number - 1], "requeued", why);
    }
  }

  void close_or_open(const std::string& name) {
    std::string reason = cordoned_[name];
    if (const auto lost = lost_.find(name); lost != lost_.end()) reason = "lost: " + lost->second;
    world_.cluster.cordon(world_.node(name), std::move(reason));
  }

  const Scenario& scenario_;
  ScenarioWorld& world_;
  std::size_t line_ = 0;
  std::map<std::string, std::string> lost_;
  std::map<std::string, std::string> cordoned_;
};

Status Play::happen(const DefragFor& defrag) {
  const ScenarioJob& waiting = job(defrag.job);
  if (waiting.state != JobState::kWaiting) {
    return wrong("job {} does not wait, and needs no defragmentation", defrag.job);
  }
  const auto request_of = [this](place::HoldingId id) { return &world_.job_of(id).request; };
  const auto plan =
      place::plan_defrag(*world_.placer, waiting.request, request_of, {.moves = defrag.moves});
  if (!plan) {
    world_.say(defrag.job, "stays", fmt::format("no {} moves make room for it", defrag.moves));
    return {};
  }
  for (const place::Move& move : plan->moves) world_.move(move.holding, move.to);
  return {};
}

}  // namespace

std::string_view to_string(JobState state) {
  constexpr std::array<std::string_view, 4> kNames{"waiting", "running", "done", "cancelled"};
  return kNames[static_cast<std::size_t>(state)];
}

std::size_t ScenarioReport::failed() const {
  return static_cast<std::size_t>(
      std::ranges::count(expectations, false, &ExpectationOutcome::passed));
}

Result<ScenarioReport> run_scenario(const Scenario& scenario,
                                    const std::optional<std::string>& policy) {
  DIVVY_TRY(world, ScenarioWorld::create(scenario, policy.value_or(scenario.policy)));
  Play play(scenario, *world);
  for (const Step& step : scenario.steps) DIVVY_CHECK_OK(play.step(step));
  play.finish_until(place::kNever);
  ScenarioReport report;
  report.file = scenario.file;
  report.policy = policy.value_or(scenario.policy);
  report.end = world->now;
  const double gpus = static_cast<double>(world->cluster.total_share()) / Share::kWhole;
  const double possible = gpus * static_cast<double>(world->now);
  report.gpu_use = possible > 0 ? world->used_gpu_seconds / possible : 0;
  report.timeline = std::move(world->timeline);
  report.expectations = std::move(play.expectations);
  for (const ScenarioJob& job : world->jobs) {
    report.jobs.push_back(
        {job.request.name, job.state, job.submitted, job.started, job.ended, job.starts});
  }
  return report;
}

}  // namespace divvy::sim
