// The devices of claims for containers, as the claims need them: the seam to the CDI folder.
// cdi_claim_devices() writes real files; tests break where they want. Callable from any thread.
#pragma once

#include <memory>
#include <set>
#include <string>

#include "base/result.h"
#include "inject/container_devices.h"

namespace divvy::kubelet {

class ClaimDevices {
 public:
  virtual ~ClaimDevices() = default;
  // Replaces the file of the claim in one step.
  [[nodiscard]] virtual Status publish(const inject::ClaimedSlices& claim) = 0;
  // No error where there is none.
  [[nodiscard]] virtual Status withdraw(const std::string& uid) = 0;
  // Removes those of all other claims.
  [[nodiscard]] virtual Status keep_only(const std::set<std::string>& uids) = 0;
};

// `devices` outlives it.
[[nodiscard]] std::unique_ptr<ClaimDevices> cdi_claim_devices(inject::ContainerDevices& devices);

}  // namespace divvy::kubelet
