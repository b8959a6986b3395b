// Watches the health of the GPUs while the daemon runs: keeps a sampler process, starts probes,
// feeds what they say to the HealthBoard, and passes on what changed. No question of its own goes
// to the driver, so that a GPU that is stuck never holds it.
//
// The methods may be called from any thread. `changed` and `tick` in its parts are called from the
// watch's own thread or from cordon(), one at a time, with no lock of the watch's held that its
// methods need.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "health/event_log.h"
#include "health/gpu_sample.h"
#include "health/health_board.h"
#include "health/health_settings.h"
#include "health/health_state.h"
#include "model/cordon.h"

namespace divvy::health {

struct SamplerReport {
  pid_t pid = 0;  // 0 while there is none
  std::uint64_t restarts = 0;
};

class HealthWatch {
 public:
  struct Parts {
    HealthSettings settings;
    std::vector<WatchedGpu> gpus;
    Clock& clock;  // Real: the thread waits for processes
    EventLog& events;
    SampleBoard& samples;
    std::map<model::GpuUuid, model::Cordon> cordons;  // Of before
    model::KeepCordon keep_cordon;                    // Empty: cordons end with the daemon
    std::function<void(const GpuHealth&)> changed;
    // Called after every change and at the time that it returned last.
    std::function<TimePoint()> tick;
  };

  // Everything referred to outlives it. `changed` has been called for every GPU when it returns.
  [[nodiscard]] static Result<std::unique_ptr<HealthWatch>> create(Parts parts);
  ~HealthWatch();
  HealthWatch(const HealthWatch&) = delete;
  HealthWatch& operator=(const HealthWatch&) = delete;

  [[nodiscard]] std::vector<GpuHealth> all() const;
  [[nodiscard]] SamplerReport sampler() const;
  // In force, and kept, when it returns. Nothing uncordons. kNotFound for a GPU that is not ours.
  [[nodiscard]] Status cordon(const model::GpuUuid& gpu,
                              const std::optional<model::Cordon>& cordon);
  // Something that tick() looks at has changed.
  void wake();

 private:
  class Impl;
  explicit HealthWatch(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace divvy::health
