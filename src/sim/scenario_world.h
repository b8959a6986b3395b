// The cluster and the jobs of a scenario while it is played: what is where, who waits, what was
// said. scenario_run.cc makes things happen, scenario_queue.cc decides who starts,
// scenario_check.cc looks whether it is as expected. Only they include it.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "place/placer.h"
#include "place/reserve.h"
#include "sim/scenario.h"
#include "sim/scenario_run.h"

namespace divvy::sim {

struct ScenarioJob {
  place::Request request;
  std::optional<place::Instant> lasts;
  std::optional<place::Instant> expected;
  JobState state = JobState::kWaiting;
  place::Instant submitted = 0;
  std::optional<place::Instant> started;
  std::optional<place::Instant> ended;
  std::uint32_t starts = 0;
  std::vector<place::HoldingId> holdings;
  std::vector<std::string> victims;  // of the last start
  bool moved = false;
  std::optional<place::Reservation> reservation;
  std::string held_up;  // why it may not start though it would fit
  bool told = false;    // that it waits, since it last came into the queue

  [[nodiscard]] std::optional<place::Instant> ends() const {
    if (state != JobState::kRunning || !lasts) return std::nullopt;
    return *started + *lasts;
  }
};

class ScenarioWorld {
 public:
  // The scenario outlives it.
  [[nodiscard]] static Result<std::unique_ptr<ScenarioWorld>> create(const Scenario& scenario,
                                                                     const std::string& policy);

  const Scenario& scenario;
  place::Cluster cluster;
  std::unique_ptr<place::Placer> placer;
  std::vector<ScenarioJob>
      jobs;  // in the order in which they came; job 1 of the cluster is jobs[0]
  place::Instant now = 0;
  std::vector<TimelineEntry> timeline;
  double used_gpu_seconds = 0;

  [[nodiscard]] std::size_t index_of(std::string_view job) const {
    return by_name_.at(std::string(job));
  }
  [[nodiscard]] place::NodeId node(std::string_view name) const { return *cluster.find(name); }
  [[nodiscard]] ScenarioJob& job_of(place::HoldingId holding) {
    return jobs[cluster.holding(holding).job - 1];
  }
  [[nodiscard]] std::vector<place::Spot> spots(const ScenarioJob& job) const;
  // "node-a gpu 0,1 and 0.5 of gpu 2", or, of a gang, "node-a x4, node-b x2".
  [[nodiscard]] std::string describe(const std::vector<place::Spot>& spots) const;

  void say(std::string job, std::string event, std::string detail);
  void pass_to(place::Instant time);

  void submit(const Submit& submit);
  void start(std::size_t index, const std::vector<place::Spot>& spots);
  // Ends it for good, or puts it back into the queue.
  void end(ScenarioJob& job, JobState state);
  void requeue(ScenarioJob& job, std::string event, std::string detail);
  void set_priority(ScenarioJob& job, std::int32_t priority);
  void move(place::HoldingId holding, const place::Spot& to);

  // Those who wait, in the order of the queue.
  [[nodiscard]] std::vector<std::size_t> queue() const;
  // Starts whoever may.
  void schedule();

 private:
  explicit ScenarioWorld(const Scenario& played) : scenario(played) {}
  void release(ScenarioJob& job);
  [[nodiscard]] place::Outlook outlook() const;
  // Tries to start everybody once; true if somebody was evicted, and the queue is another.
  [[nodiscard]] bool schedule_once();
  [[nodiscard]] bool start_by_evicting(std::size_t index, const place::Outlook& outlook);

  std::unordered_map<std::string, std::size_t> by_name_;
};

// Whether it is as expected; if not, what is so instead.
struct Checked {
  bool passed = false;
  std::string found;
};
[[nodiscard]] Checked check_expectation(ScenarioWorld& world, const Expect& expect);
// Why a job waits, in all detail.
[[nodiscard]] std::string why_it_waits(ScenarioWorld& world, const ScenarioJob& job);

}  // namespace divvy::sim
