// Which containers of this node hold which slots, as the kubelet says. It knows before a container
// starts, and forgets after its pod has ended; init containers that have to end are not in it
// (their slots go on to the other containers of their pod, which are). Callable from any thread.
#pragma once

#include <filesystem>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "base/result.h"

namespace divvy::kubelet {

struct SlotHolder {
  std::string space;  // its namespace
  std::string pod;
  std::string container;
  friend auto operator<=>(const SlotHolder&, const SlotHolder&) = default;
};

struct HeldSlots {
  SlotHolder holder;
  std::set<std::string> slots;
};

class PodResources {
 public:
  virtual ~PodResources() = default;
  // Not from within Allocate: the kubelet would forget the device that it is about to give.
  [[nodiscard]] virtual Result<std::vector<HeldSlots>> held_slots() = 0;
};

// At the kubelet's socket (KUBELET_ROOT/pod-resources/kubelet.sock), which need not be there yet.
[[nodiscard]] std::unique_ptr<PodResources> kubelet_pod_resources(
    const std::filesystem::path& socket);

}  // namespace divvy::kubelet
