// The health of the GPUs on this machine: the watch, the events, the samples, cordons, and what a
// GPU's health means for its tenants. All methods may be called from any
// thread.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "agent/tenants.h"
#include "base/clock.h"
#include "base/result.h"
#include "health/event_log.h"
#include "health/failing_tenants.h"
#include "health/gpu_sample.h"
#include "health/health_settings.h"
#include "health/health_watch.h"
#include "model/cordon.h"

namespace divvy::agent {

class HealthService {
 public:
  struct Parts {
    health::HealthSettings settings;
    Tenants& tenants;
    Clock& clock;
    std::map<model::GpuUuid, model::Cordon> cordons;  // Of before
    model::KeepCordon keep_cordon;                    // Empty: cordons end with the daemon
  };

  // What is referred to outlives it.
  [[nodiscard]] static Result<std::unique_ptr<HealthService>> create(Parts parts);

  [[nodiscard]] std::vector<health::GpuHealth> all() const { return watch_->all(); }
  [[nodiscard]] health::SamplerReport sampler() const { return watch_->sampler(); }
  [[nodiscard]] const health::SampleBoard& samples() const { return samples_; }
  [[nodiscard]] health::EventLog& events() { return events_; }

  // No new work. With a time, whoever is there after it is ended; that time is not remembered
  // across a restart of the daemon.
  [[nodiscard]] Status cordon(const model::GpuUuid& gpu, std::string reason, bool drain,
                              std::optional<Duration> end_after = std::nullopt);
  [[nodiscard]] Status uncordon(const model::GpuUuid& gpu);

 private:
  explicit HealthService(const Parts& parts);

  Tenants& tenants_;
  Clock& clock_;
  health::EventLog events_;
  health::SampleBoard samples_;
  health::FailingTenants failing_;
  // Last, so that it ends first: its thread calls into the others.
  std::unique_ptr<health::HealthWatch> watch_;
};

}  // namespace divvy::agent
