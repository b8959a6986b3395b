// Everything that looks after the GPUs while the daemon runs, put together: the watch, the events,
// the samples, and what a GPU's health means for the tenants. All methods may be called from any
// thread.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "node/cordon.h"
#include "node/event_log.h"
#include "node/failing_tenants.h"
#include "node/gpu_sample.h"
#include "node/health_settings.h"
#include "node/health_watch.h"
#include "node/tenants.h"

namespace divvy::node {

class GpuCare {
 public:
  struct Parts {
    HealthSettings settings;
    Tenants& tenants;
    Clock& clock;
    std::map<model::GpuUuid, Cordon> cordons;  // Of before
    KeepCordon keep_cordon;                    // Empty: cordons end with the daemon
  };

  // What is referred to outlives it.
  [[nodiscard]] static Result<std::unique_ptr<GpuCare>> create(Parts parts);

  [[nodiscard]] std::vector<GpuHealth> all() const { return watch_->all(); }
  [[nodiscard]] SamplerReport sampler() const { return watch_->sampler(); }
  [[nodiscard]] const SampleBoard& samples() const { return samples_; }
  [[nodiscard]] EventLog& events() { return events_; }

  // No new work. With a time, whoever is there after it is ended; that time is not remembered
  // across a restart of the daemon.
  [[nodiscard]] Status cordon(const model::GpuUuid& gpu, std::string reason, bool drain,
                              std::optional<Duration> end_after = std::nullopt);
  [[nodiscard]] Status uncordon(const model::GpuUuid& gpu);

 private:
  explicit GpuCare(const Parts& parts);

  Tenants& tenants_;
  Clock& clock_;
  EventLog events_;
  SampleBoard samples_;
  FailingTenants failing_;
  // Last, so that it ends first: its thread calls into the others.
  std::unique_ptr<HealthWatch> watch_;
};

}  // namespace divvy::node
