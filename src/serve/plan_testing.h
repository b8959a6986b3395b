// A machine as far as a service sees it: jobs that wait, run, get ready, are told to end and end,
// and requests that are in flight in them. Only for tests.
#pragma once

#include <algorithm>
#include <map>
#include <vector>

#include "serve/plan.h"
#include "serve/testing.h"

namespace divvy::serve {

class World {
 public:
  explicit World(Service service) : service_(std::move(service)) {}

  // One round; what is to be done is done. The proxy does at once what the plan says.
  Plan round() {
    std::vector<Replica> replicas;
    for (const auto& [id, job] : jobs_) replicas.push_back(job);
    Plan made = plan(service_, replicas, traffic_, memory_, now_);
    for (const VersionNumber version : made.start) {
      const model::JobId id(++last_);
      jobs_[id] = Replica{.job = id, .version = version, .phase = Phase::kWaiting, .since = now_};
    }
    for (const model::JobId id : made.stop) jobs_.at(id).phase = Phase::kStopping;
    std::erase_if(jobs_, [](const auto& job) { return job.second.phase == Phase::kEnded; });
    const auto asked = weights(service_);
    for (auto& [id, job] : jobs_) job.in_rotation = asked.contains(id);
    return made;
  }
  void pass(model::Seconds time) { now_ += time; }
  void run(model::JobId id) {
    jobs_.at(id).phase = Phase::kRunning;
    jobs_.at(id).since = now_;
  }
  void end(model::JobId id) {
    if (jobs_.contains(id)) jobs_.at(id).phase = Phase::kEnded;
  }

  // Everything that waits runs, what runs is healthy, what is told to end ends; until nothing
  // happens any more. Answers how many rounds that took; `most` where it does not come to an end.
  int settle(int most = 200) {
    for (int rounds = 0; rounds < most; ++rounds) {
      const Service before = service_;
      const Plan made = round();
      bool moved = !made.start.empty() || !made.stop.empty() || service_ != before;
      for (auto it = jobs_.begin(); it != jobs_.end();) {
        Replica& job = it->second;
        if (job.phase == Phase::kStopping) {
          it = jobs_.erase(it);
          moved = true;
          continue;
        }
        if (job.phase == Phase::kWaiting) {
          run(job.job);
          moved = true;
        }
        if (!job.healthy) moved = true;
        job.healthy = true;
        if (!job.in_rotation) job.in_flight = 0;
        ++it;
      }
      if (moved) continue;
      if (!made.look_at) return rounds;
      now_ = *made.look_at;
    }
    return most;
  }

  [[nodiscard]] std::uint32_t ready(VersionNumber version = 0) const {
    return static_cast<std::uint32_t>(
        std::ranges::count_if(service_.replicas, [version](const auto& entry) {
          return entry.second.ready && (version == 0 || entry.second.version == version);
        }));
  }

  Service service_;
  Memory memory_;
  std::optional<Traffic> traffic_ = Traffic{};
  std::map<model::JobId, Replica> jobs_;
  WallTime now_ = at_second(1'000'000);
  std::uint64_t last_ = 0;
};

}  // namespace divvy::serve
