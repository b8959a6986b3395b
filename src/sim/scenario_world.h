// The queue and the cluster of a scenario while it is played: does at once what the queue decides,
// ends what is due, and writes down what happened. scenario_run.cc makes things happen,
// scenario_check.cc looks whether it is as expected. Only they include it.
//
// Time is seconds since the beginning, which for the queue are seconds of wall time since 1970.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "jobs/queue.h"
#include "sim/scenario.h"
#include "sim/scenario_run.h"

namespace divvy::sim {

// What the queue does not know about a job.
struct ScenarioJob {
  std::string name;
  std::optional<place::Instant> lasts;
  std::optional<place::Instant> started;  // the last time
  std::uint32_t starts = 0;
  std::vector<std::string> victims;     // of the last start
  std::vector<std::string> making_way;  // for the next one
  bool moved = false;
  std::optional<place::Instant> due;  // its members end then
  std::size_t heard = 0;              // lines of its history that were looked at
  std::uint64_t held_share = 0;       // thousandths of a GPU
};

class ScenarioWorld {
 public:
  // The scenario outlives it.
  [[nodiscard]] static Result<std::unique_ptr<ScenarioWorld>> create(const Scenario& scenario,
                                                                     const std::string& policy);

  const Scenario& scenario;
  std::vector<ScenarioJob> jobs;  // in the order in which they came; jobs[0] is job 1
  place::Instant now = 0;
  std::vector<TimelineEntry> timeline;
  double used_gpu_seconds = 0;

  [[nodiscard]] jobs::Queue& queue() { return *queue_; }
  [[nodiscard]] WallTime wall() const { return WallTime(jobs::Seconds(now)); }
  [[nodiscard]] std::size_t index_of(std::string_view job) const {
    return by_name_.at(std::string(job));
  }
  [[nodiscard]] static model::JobId id_of(std::size_t index) { return model::JobId(index + 1); }
  // What the queue knows about it.
  [[nodiscard]] const model::Job& job(std::size_t index) const;
  [[nodiscard]] std::uint32_t node(std::string_view name) const {
    return nodes_.at(std::string(name));
  }
  [[nodiscard]] jobs::FleetNode& fleet_node(std::string_view name) {
    return fleet_.nodes[node(name)];
  }
  // The numbers of its GPUs.
  [[nodiscard]] std::vector<std::uint32_t> gpus_of(const model::JobMember& member) const;
  // "node-a gpu 0,1 and 0.5 of gpu 2", or, of a gang, "node-a x4, node-b x2".
  [[nodiscard]] std::string describe(std::span<const model::JobMember> members) const;
  [[nodiscard]] std::string describe(std::span<const place::Spot> spots) const;

  void say(std::string job, std::string event, std::string detail);

  // Everything that happens by itself until then. Refused: it would go on for ever.
  [[nodiscard]] Status pass_to(place::Instant time);
  // Lets the queue decide until it has nothing more to say.
  [[nodiscard]] Status settle();

  [[nodiscard]] Status submit(const Submit& submit);
  // Its members that live end now: with this exit code, or by a signal.
  void end_members(std::size_t index, int exit_code, int signal);
  void fail_one_member(std::size_t index);
  [[nodiscard]] Status move(const jobs::Move& move);
  // What its history has more since it was last looked at.
  void hear();
  // The fleet was changed.
  void tell_fleet();

 private:
  explicit ScenarioWorld(const Scenario& played) : scenario(played) {}
  void advance(place::Instant time);
  void hear(std::size_t index);
  void follow(const jobs::Start& start);
  void follow(const jobs::Stop& stop);
  void end_at(std::size_t index, std::optional<place::Instant> time);
  void end_due();
  void tell_who_waits();

  std::unique_ptr<jobs::Queue> queue_;
  jobs::Fleet fleet_;
  std::unordered_map<std::string, std::size_t> by_name_;
  std::unordered_map<std::string, std::uint32_t> nodes_;
  std::unordered_map<std::string, std::uint32_t> gpu_numbers_;  // by UUID
  std::set<std::pair<place::Instant, std::size_t>> due_;
  std::set<std::size_t> untold_;  // came into the queue, and it was not said why they wait
  std::uint64_t held_share_ = 0;
};

// Whether it is as expected; if not, what is so instead.
struct Checked {
  bool passed = false;
  std::string found;
};
[[nodiscard]] Checked check_expectation(ScenarioWorld& world, const Expect& expect);

}  // namespace divvy::sim
