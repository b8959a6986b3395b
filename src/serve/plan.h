// What is to happen to a service next. Pure and deterministic: the service with what is remembered
// of it, its replicas as they are, the traffic and the time give a changed service and the jobs to
// start and to stop. Called again whenever something happened or the time has come; after a crash
// the same state gives the same answer.
//
// What always holds, whatever happens:
//   - at most `replicas wanted + 1` are there when one is started;
//   - an update takes no ready replica away before another one is ready in its place;
//   - a version on its way that does not get ready is taken back;
//   - a replica that is to end gets no new requests, and time for those that it has.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "serve/service.h"

namespace divvy::serve {

enum class Phase {
  kWaiting,  // for a place, or is being started
  kRunning,
  kStopping,  // has been told to end
  kEnded,     // is told once
};

// A job of the service. One that has ended may also be missing.
struct Replica {
  model::JobId job;
  VersionNumber version = 0;
  Phase phase = Phase::kWaiting;
  WallTime since;            // when it began to run
  bool healthy = false;      // its ready path answers
  bool in_rotation = false;  // it may get new requests
  std::uint32_t in_flight = 0;
};

// As the proxy counts it. Nothing: nobody knows just now, and nothing is decided by it.
struct Traffic {
  std::uint32_t in_flight = 0;  // also those that wait for a replica
  std::uint64_t requests = 0;   // all that ever came; less than before when the proxy is new
  std::optional<std::uint32_t> latency_ms = {};  // until answers began lately, on average
  std::optional<std::uint32_t> gpu_use = {};  // percent of their shares that replicas use just now
};

// A mean in the making.
struct Mean {
  std::uint64_t sum = 0;
  std::uint64_t count = 0;

  void add(std::uint64_t value) {
    sum += value;
    ++count;
  }
  [[nodiscard]] std::uint64_t value() const { return count == 0 ? 0 : sum / count; }
};

// Latency and use of the GPU while all replicas that are wanted are at work. They are judged
// after kWhole: a change shows in them only when it is made.
struct Measurement {
  static constexpr model::Seconds kWhole{15};

  std::optional<WallTime> since = {};
  Mean latency_ms = {};
  Mean gpu_use = {};
};

// What need not survive a restart.
struct Memory {
  std::optional<WallTime> calm_since;  // fewer replicas would do
  std::uint32_t calm_peak = 0;         // the most that would have been needed since then
  std::uint64_t requests = 0;
  std::optional<WallTime> last_request;
  Measurement measurement;
  std::optional<std::uint32_t> measured;  // the replicas that the last whole one asks for
  std::string measured_text;              // what it found, for people
};

struct Plan {
  std::vector<VersionNumber> start;  // a replica of this version, each
  std::vector<model::JobId> stop;
  bool gone = false;                // it was deleted, and nothing of it is left
  std::optional<WallTime> look_at;  // even if nothing happens until then
};

// Changes `service` and `memory`. The service is to be kept before any of the plan is done.
[[nodiscard]] Plan plan(Service& service, const std::vector<Replica>& replicas,
                        const std::optional<Traffic>& traffic, Memory& memory, WallTime now);

// Of 256: what part of the requests each replica that may be asked gets. Those that are not in it
// get none.
[[nodiscard]] std::map<model::JobId, std::uint32_t> weights(const Service& service);

// How long after its failure a version with so many in a row is not started.
[[nodiscard]] model::Seconds back_off(std::uint32_t failures);

}  // namespace divvy::serve
