// What a GPU's health means for the tenants: none come to a GPU that is not healthy or that is
// cordoned, those on a GPU that fails are told and, where the operator wants it, ended, and those
// on a GPU that is drained are ended when their time is over.
//
// Thread-safe.
#pragma once

#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "health/event_log.h"
#include "health/health_settings.h"
#include "health/health_state.h"
#include "model/tenant.h"

namespace divvy::health {

struct HolderName {
  model::TenantId id;
  std::string name;
};

// Why a GPU gets no new work, as a sentence continues after its name ("is cordoned"); empty when
// it gets some.
[[nodiscard]] std::string resting_text(const GpuHealth& health);

class FailingTenants {
 public:
  struct Parts {
    OnFailure on_failure = OnFailure::kKeep;
    Duration grace_time{};
    const Clock& clock;
    EventLog& events;
    std::function<std::vector<HolderName>(const model::GpuUuid&)> holders;
    std::function<void(model::TenantId, int signal)> signal;
    // `resting` as above; `failing`: its tenants should know.
    std::function<void(const model::GpuUuid&, const std::string& resting, bool failing)> rest;
  };
  explicit FailingTenants(Parts parts) : parts_(std::move(parts)) {}

  // In force when it returns; those on the GPU are told by the next tick().
  void gpu_changed(model::GpuIndex index, const GpuHealth& health);
  // The GPU is being drained and whoever is there then is ended.
  void end_at(const model::GpuUuid& gpu, TimePoint deadline);
  // To be called again then, or when something changed.
  [[nodiscard]] TimePoint tick();

 private:
  struct Known {
    model::GpuIndex index;
    bool quarantined = false;
    bool draining = false;
    bool drained = false;
    bool tell_failed = false;
    bool tell_drains = false;
    std::optional<TimePoint> deadline;
    std::string reason;
  };
  struct Ending {
    TimePoint kill_at;
    model::GpuUuid gpu;
    std::string name;
  };

  void tell_holders(const model::GpuUuid& gpu, Known& known);
  void tell(const model::GpuUuid& gpu, const Known& known, const HolderName& holder,
            const std::string& words);
  void end(const model::GpuUuid& gpu, const Known& known, const HolderName& holder);

  Parts parts_;
  std::mutex mutex_;
  std::map<model::GpuUuid, Known> gpus_;
  std::map<model::TenantId, Ending> endings_;
};

}  // namespace divvy::health
