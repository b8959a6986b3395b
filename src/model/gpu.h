// One GPU as the driver describes it at one moment. A plain value: filled by the inventory (nvml),
// read by everybody else. Nothing here asks the driver.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/ids.h"
#include "base/units.h"
#include "model/gpu_uuid.h"
#include "model/pci_address.h"

namespace divvy::model {

// The driver's number for a GPU on this node. It may change at the next boot; the UUID does not.
using GpuIndex = StrongId<struct GpuIndexTag, std::uint32_t>;

struct ComputeCapability {
  std::uint32_t major = 0;
  std::uint32_t minor = 0;
  friend auto operator<=>(const ComputeCapability&, const ComputeCapability&) = default;
};
// "9.0"
[[nodiscard]] std::string to_string(ComputeCapability capability);

enum class MigMode { kUnsupported, kDisabled, kEnabled };
[[nodiscard]] std::string_view to_string(MigMode mode);

enum class HealthState {
  kHealthy,
  kSuspect,      // Something odd was seen; still used.
  kQuarantined,  // Broken; gets no new work until somebody or a probe says otherwise.
  kProbation,    // Was quarantined, works again, watched before it is trusted.
  kUnknown,      // Not looked at, or the question was not answered.
};
[[nodiscard]] std::string_view to_string(HealthState state);

// A state and why, in words for people ("XID 79: fallen off the bus"). Healthy has no reason.
struct Health {
  HealthState state = HealthState::kUnknown;
  std::string reason;
  friend bool operator==(const Health&, const Health&) = default;
};

// May new work be placed on a GPU in this state? Unknown counts as yes: a driver that does not
// report health must not make its GPU useless.
[[nodiscard]] bool accepts_new_work(HealthState state);

// A question that the driver answered with an error.
struct FieldProblem {
  std::string field;  // "temperature"
  std::string error;  // "GPU is lost"
  friend bool operator==(const FieldProblem&, const FieldProblem&) = default;
};

// Only the index is always known. Whatever the driver did not answer is empty and, where that was
// an error rather than "this model does not have it", listed in `problems`.
struct Gpu {
  GpuIndex index;
  std::optional<GpuUuid> uuid;
  std::optional<std::string> name;  // The model: "NVIDIA H200"
  std::optional<Bytes> memory_total;
  std::optional<Bytes> memory_used;
  std::optional<Bytes> memory_reserved;  // Kept by the driver: neither used by anybody nor free
  std::optional<std::string> driver_version;
  std::optional<PciAddress> pci;
  std::optional<std::uint32_t> minor_number;  // The N of /dev/nvidiaN
  std::optional<std::uint32_t> numa_node;
  std::optional<ComputeCapability> compute_capability;
  std::optional<std::uint32_t> temperature_c;
  std::optional<std::uint32_t> power_mw;
  std::optional<std::uint32_t> power_limit_mw;
  std::optional<std::uint32_t> utilization_percent;
  std::optional<MigMode> mig_mode;
  Health health;
  std::vector<FieldProblem> problems;

  friend bool operator==(const Gpu&, const Gpu&) = default;
};

// What is left of the memory; nothing when the driver told only a part.
[[nodiscard]] std::optional<Bytes> memory_free(const Gpu& gpu);

}  // namespace divvy::model
