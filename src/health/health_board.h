// The health of all GPUs of this machine: keeps a Health for each, notices who is silent, knows the
// operator's cordons, and says what is to be done and what happened. No I/O and no thread: whoever
// owns it (HealthWatch) calls it from one thread at a time.
#pragma once

#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "health/event_log.h"
#include "health/health.h"
#include "health/health_settings.h"
#include "health/sample_message.h"
#include "model/cordon.h"
#include "model/gpu.h"

namespace divvy::health {

struct WatchedGpu {
  model::GpuIndex index;
  model::GpuUuid uuid;
  std::string out_of_order;  // Why the inventory calls it so; empty: it does not
};

class HealthBoard {
 public:
  // The clock outlives it and is only looked at.
  HealthBoard(const HealthSettings& settings, const std::vector<WatchedGpu>& gpus,
              const Clock& clock);

  // A sampler was started: everybody has the time to answer anew.
  void sampler_started();
  // About a GPU that is not ours: nothing happens.
  void heard(const SamplerMessage& message);

  void probe_started(const model::GpuUuid& gpu);
  void probe_ended(const model::GpuUuid& gpu, const ProbeResult& result);

  // Nothing takes the cordon away. False when it is not one of ours.
  bool set_cordon(const model::GpuUuid& gpu, std::optional<model::Cordon> cordon);

  struct Todo {
    std::vector<model::GpuUuid> probes;  // To be started
    bool new_sampler = false;            // The one that runs is stuck, or too old to know better
    TimePoint next = TimePoint::max();   // To be called again
  };
  [[nodiscard]] Todo tick();

  [[nodiscard]] std::vector<GpuHealth> all() const;
  // Those that changed since the last call, in the order of the GPUs. All of them at first.
  [[nodiscard]] std::vector<GpuHealth> take_changed();
  // What happened since the last call. To be told after the changes are in force.
  [[nodiscard]] std::vector<Event> take_news() { return std::exchange(news_, {}); }

 private:
  struct Ward {
    WatchedGpu gpu;
    Health health;
    WallTime since = {};
    TimePoint answer_by = {};    // Silent after that
    TimePoint given_up_at = {};  // While silent: hopeless after that
    bool silent = false;
    bool given_up = false;
    bool probing = false;
    bool changed = true;
    std::optional<model::Cordon> cordon = {};
    std::map<std::uint64_t, TimePoint> told = {};  // XIDs of applications, and when
  };

  Ward* find(const model::GpuUuid& gpu);
  void hear(Ward& ward, const SampleMessage& message);
  void hear(Ward& ward, const XidMessage& message);
  void hear(Ward& ward, const FailedMessage& message);
  void has_answered(Ward& ward, std::chrono::milliseconds next);
  void listen_for_silence(Ward& ward);
  void note(Ward& ward, const HealthChanges& changes);
  [[nodiscard]] static Event about(const Ward& ward, EventKind kind, std::string reason);
  [[nodiscard]] static GpuHealth shown(const Ward& ward);
  [[nodiscard]] bool sampler_is_stuck() const;

  HealthSettings settings_;
  const Clock& clock_;
  std::vector<Event> news_;
  std::vector<Ward> wards_;
  TimePoint sampler_since_;
};

}  // namespace divvy::health
