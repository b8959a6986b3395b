// Small fleets and jobs for the tests of this room and its benchmark, and somebody who does what
// the queue decides. Only for tests.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/check.h"
#include "jobs/queue.h"
#include "model/testing.h"

namespace divvy::jobs::testing {

inline WallTime at(std::int64_t second) { return WallTime(std::chrono::seconds(second)); }

inline Fleet fleet(std::uint32_t nodes, std::uint32_t gpus) {
  Fleet result;
  for (std::uint32_t i = 0; i < nodes; ++i) {
    FleetNode node;
    node.name = "node" + std::to_string(i);
    node.cpu_milli = 64'000;
    node.ram = gib(256);
    for (std::uint32_t g = 0; g < gpus; ++g) {
      FleetGpu gpu{.uuid = model::test_uuid(i * 100 + g), .index = g};
      gpu.device.model = "NVIDIA H200";
      gpu.device.memory = gib(100);
      node.gpus.push_back(std::move(gpu));
    }
    result.nodes.push_back(std::move(node));
  }
  return result;
}

inline model::JobSpec spec(std::uint32_t thousandths, std::uint32_t members = 1) {
  model::Request::Parts parts;
  parts.share = Share(thousandths);
  parts.gang_size = members;
  model::JobSpec result(*model::Request::create(parts));
  result.command = {"true"};
  return result;
}

inline QueueSettings queue(std::string path, std::optional<std::uint32_t> quota = {},
                           bool may_borrow = true) {
  QueueSettings settings;
  settings.path = std::move(path);
  if (quota) settings.quota.share = Share(*quota);
  settings.may_borrow = may_borrow;
  return settings;
}

// A queue on a fleet, with time that moves when the test says so. Whatever is decided is done at
// once, unless the test wants to do it itself (`pass`).
class Desk {
 public:
  explicit Desk(Settings settings = {}, const Fleet& gpus = fleet(1, 4)) {
    auto made = Queue::create(std::move(settings));
    DIVVY_CHECK(made.has_value(), "{}", made.error().message);
    queue_ = *std::move(made);
    set_fleet(gpus);
  }

  [[nodiscard]] Queue& queue() { return *queue_; }
  [[nodiscard]] WallTime now() const { return at(now_s_); }
  void set_fleet(const Fleet& gpus) {
    const Status set = queue_->set_fleet(gpus);
    DIVVY_CHECK(set.has_value(), "{}", set.error().message);
  }

  model::JobId submit(model::JobSpec spec, const std::string& owner = "ada") {
    // Tests also look at how that waits which can never start.
    spec.hold_for_capacity = true;
    const Status fine = queue_->check(spec, owner);
    DIVVY_CHECK(fine.has_value(), "{}", fine.error().message);
    const model::JobId id(next_id_++);
    queue_->submit(model::Job(id, owner, std::move(spec), now()), now());
    return id;
  }
  model::JobId submit_to(const std::string& queue, model::JobSpec spec,
                         const std::string& owner = "ada") {
    spec.queue = queue;
    return submit(std::move(spec), owner);
  }

  std::vector<Decision> pass() { return queue_->pass(now()); }
  // Decides and starts what is to be started; what is to be stopped goes on.
  std::vector<Decision> run() {
    auto decisions = pass();
    for (const Decision& decision : decisions) {
      if (const Start* const start = std::get_if<Start>(&decision)) begin(*start);
    }
    return decisions;
  }
  void begin(const Start& start) {
    for (const model::JobMember& member : start.members) {
      queue_->member_started(start.job, start.attempt, member.rank, now());
    }
  }
  // All members that have not ended do now.
  void end(model::JobId id, int exit_code = 0, int signal = 0) {
    const model::Job job = this->job(id);
    for (const model::JobMember& member : job.members) {
      if (member.end) continue;
      queue_->member_ended(id, job.attempt, member.rank, {now(), exit_code, signal, ""}, now());
    }
  }
  void wait(std::int64_t seconds) { now_s_ += seconds; }

  [[nodiscard]] const model::Job& job(model::JobId id) const {
    const model::Job* const found = queue_->find(id);
    DIVVY_CHECK(found != nullptr, "no job {}", id);
    return *found;
  }
  [[nodiscard]] model::JobState state(model::JobId id) const { return job(id).state; }

 private:
  std::unique_ptr<Queue> queue_;
  std::int64_t now_s_ = 1'800'000'000;
  std::uint64_t next_id_ = 1;
};

template <typename T>
std::vector<T> only(const std::vector<Decision>& decisions) {
  std::vector<T> found;
  for (const Decision& decision : decisions) {
    if (const T* const one = std::get_if<T>(&decision)) found.push_back(*one);
  }
  return found;
}

inline std::vector<model::JobId> started(const std::vector<Decision>& decisions) {
  std::vector<model::JobId> ids;
  for (const Start& start : only<Start>(decisions)) ids.push_back(start.job);
  return ids;
}

}  // namespace divvy::jobs::testing
