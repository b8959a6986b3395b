#include "sim/scenario_run.h"

#include <algorithm>
#include <map>

#include "base/text.h"
#include "sim/scenario_world.h"

namespace divvy::sim {
namespace {

using model::JobState;

class Play {
 public:
  Play(const Scenario& scenario, ScenarioWorld& world) : scenario_(scenario), world_(world) {}

  Status step(const Step& step) {
    line_ = step.line;
    if (const auto passed = world_.pass_to(step.at); !passed) return wrong(passed.error());
    if (const auto* expect = std::get_if<Expect>(&step.what)) {
      Checked checked = check_expectation(world_, *expect);
      expectations.push_back({step.line, expect->source, checked.passed, std::move(checked.found)});
      return {};
    }
    DIVVY_RETURN_IF_ERROR(std::visit([this](const auto& what) { return happen(what); }, step.what));
    if (const auto settled = world_.settle(); !settled) return wrong(settled.error());
    return {};
  }

  // Everything that ends by itself.
  Status finish() {
    if (const auto passed = world_.pass_to(place::kNever); !passed) return wrong(passed.error());
    return {};
  }

  std::vector<ExpectationOutcome> expectations;

 private:
  template <typename... Args>
  [[nodiscard]] tl::unexpected<Error> wrong(fmt::format_string<Args...> format,
                                            Args&&... args) const {
    return err(ErrorCode::kInvalidArgument, "{}:{}: {}", escape_for_terminal(scenario_.file), line_,
               fmt::format(format, std::forward<Args>(args)...));
  }
  [[nodiscard]] tl::unexpected<Error> wrong(const Error& error) const {
    return wrong("{}", error.message);
  }

  [[nodiscard]] const model::Job& job(const std::string& name) const {
    return world_.job(world_.index_of(name));
  }
  [[nodiscard]] model::JobId id(const std::string& name) const {
    return ScenarioWorld::id_of(world_.index_of(name));
  }
  // What the queue said to what somebody asked of it.
  Status told(Status status) {
    world_.hear();
    if (!status) return wrong(status.error());
    return {};
  }

  Status happen(const Wait&) { return {}; }
  Status happen(const Expect&) { return {}; }
  Status happen(const Submit& submit) {
    if (const auto taken = world_.submit(submit); !taken) return wrong(taken.error());
    return {};
  }
  Status happen(const Finish& finish) {
    const JobState state = job(finish.job).state;
    if (state != JobState::kRunning) {
      return wrong("job {} is {} and cannot {}; it can while it runs", finish.job, to_string(state),
                   finish.well ? "finish" : "fail");
    }
    if (finish.well) {
      world_.end_members(world_.index_of(finish.job), 0, 0);
    } else {
      world_.fail_one_member(world_.index_of(finish.job));
    }
    return {};
  }
  Status happen(const Cancel& cancel) {
    if (is_finished(job(cancel.job).state)) {
      return wrong("job {} has ended already", cancel.job);
    }
    return told(world_.queue().cancel(id(cancel.job), job(cancel.job).owner, world_.wall()));
  }
  Status happen(const Suspend& suspend) {
    return told(world_.queue().suspend(id(suspend.job), job(suspend.job).owner, world_.wall()));
  }
  Status happen(const Resume& resume) {
    return told(world_.queue().resume(id(resume.job), job(resume.job).owner, world_.wall()));
  }
  Status happen(const SetPriority& change) {
    if (is_finished(job(change.job).state)) {
      return wrong("job {} has ended already", change.job);
    }
    const auto set = world_.queue().set_priority(id(change.job), change.priority,
                                                 job(change.job).owner, world_.wall());
    if (!set) return wrong(set.error());
    world_.jobs[world_.index_of(change.job)].heard = job(change.job).history.size();
    world_.say(change.job, "priority", fmt::format("{}", change.priority));
    return {};
  }
  Status happen(const LoseNode& lost) {
    jobs::FleetNode& node = world_.fleet_node(lost.node);
    if (std::exchange(node.lost, true)) {
      return wrong("node {} is lost already; let it return first", lost.node);
    }
    node.closed = lost.reason;
    world_.say({}, "lost", fmt::format("{}: {}", lost.node, lost.reason));
    world_.tell_fleet();
    return {};
  }
  Status happen(const ReturnNode& returned) {
    jobs::FleetNode& node = world_.fleet_node(returned.node);
    if (!std::exchange(node.lost, false)) {
      return wrong("node {} is not lost; lose it first", returned.node);
    }
    node.closed = cordoned_[returned.node];
    world_.say({}, "returned", returned.node);
    world_.tell_fleet();
    return {};
  }
  Status happen(const Cordon& cordon) {
    cordoned_[cordon.node] = cordon.reason;
    if (cordon.reason.empty()) {
      world_.say({}, "uncordoned", cordon.node);
    } else {
      world_.say({}, "cordoned", fmt::format("{}: {}", cordon.node, cordon.reason));
    }
    jobs::FleetNode& node = world_.fleet_node(cordon.node);
    if (!node.lost) node.closed = cordon.reason;
    world_.tell_fleet();
    return {};
  }
  Status happen(const GpuHealth& health) {
    jobs::FleetGpu& gpu = world_.fleet_node(health.node).gpus[health.gpu];
    gpu.resting = health.reason;
    gpu.lost = !health.reason.empty();
    const std::string name = fmt::format("gpu {} of {}", health.gpu, health.node);
    world_.say({}, gpu.lost ? "unhealthy" : "healthy",
               gpu.lost ? fmt::format("{}: {}", name, health.reason) : name);
    world_.tell_fleet();
    return {};
  }
  Status happen(const DefragFor& defrag) {
    const auto plan = world_.queue().plan_moves(id(defrag.job), defrag.moves, world_.wall());
    if (!plan) {
      return wrong("job {} does not wait for a place, and needs no defragmentation", defrag.job);
    }
    if (!*plan) {
      world_.say(defrag.job, "stays", fmt::format("no {} moves make room for it", defrag.moves));
      return {};
    }
    for (const jobs::Move& move : (*plan)->moves) {
      if (const auto moved = world_.move(move); !moved) return wrong(moved.error());
    }
    return {};
  }

  const Scenario& scenario_;
  ScenarioWorld& world_;
  std::size_t line_ = 1;
  std::map<std::string, std::string> cordoned_;
};

place::Instant seconds_of(WallTime time) {
  return std::chrono::floor<jobs::Seconds>(time).time_since_epoch().count();
}

}  // namespace

std::size_t ScenarioReport::failed() const {
  return static_cast<std::size_t>(
      std::ranges::count(expectations, false, &ExpectationOutcome::passed));
}

Result<ScenarioReport> run_scenario(const Scenario& scenario,
                                    const std::optional<std::string>& policy) {
  DIVVY_TRY(world, ScenarioWorld::create(scenario, policy.value_or(scenario.settings.policy)));
  Play play(scenario, *world);
  for (const Step& step : scenario.steps) DIVVY_RETURN_IF_ERROR(play.step(step));
  DIVVY_RETURN_IF_ERROR(play.finish());
  ScenarioReport report;
  report.file = scenario.file;
  report.policy = policy.value_or(scenario.settings.policy);
  report.end = world->now;
  double gpus = 0;
  for (const place::NodeSpec& node : scenario.nodes) {
    gpus += static_cast<double>(node.devices.size());
  }
  const double possible = gpus * static_cast<double>(world->now);
  report.gpu_use = possible > 0 ? world->used_gpu_seconds / possible : 0;
  report.timeline = std::move(world->timeline);
  report.expectations = std::move(play.expectations);
  for (std::size_t i = 0; i < world->jobs.size(); ++i) {
    const model::Job& job = world->job(i);
    std::optional<place::Instant> ended;
    if (job.ended) ended = seconds_of(*job.ended);
    report.jobs.push_back({job.spec.name, job.state, seconds_of(job.submitted),
                           world->jobs[i].started, ended, world->jobs[i].starts});
  }
  return report;
}

}  // namespace divvy::sim
