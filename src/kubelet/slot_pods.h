// Pods that have slots of this node, the second way in which pods come to their slices
// (docs/decisions/0023-slots-as-the-second-way.md). A slot says nothing; the kubelet gives one to a
// container and asks what to put into it, without saying whose it is. So the answer is the name of
// a device that does not exist yet; when the container is about to start the kubelet can be asked
// who holds the slot, and the API server what that pod was given. The kubelet says nothing when a
// pod has ended, so somebody has to look.
//
// All methods may be called from any thread.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "base/result.h"
#include "kube/api_server.h"
#include "kubelet/pod_resources.h"
#include "kubelet/prepared_claims.h"

namespace divvy::kubelet {

class SlotPods {
 public:
  struct Options {
    std::chrono::milliseconds interval = std::chrono::seconds(3);
    // Of the API server, in one sweep.
    std::size_t most_questions = 16;
  };
  // What it refers to outlives it.
  SlotPods(Options options, PreparedClaims& claims, PodResources& resources, kube::ApiServer& api)
      : options_(options), claims_(claims), resources_(resources), api_(api) {}
  ~SlotPods();
  SlotPods(const SlotPods&) = delete;
  SlotPods& operator=(const SlotPods&) = delete;

  // One device for each slot. Refused: a slot whose last holder lives, because the kubelet forgot
  // it; the pod fails for good then, so it should not come to that (prefer()).
  [[nodiscard]] Result<std::vector<std::string>> allocate(const std::vector<std::string>& slots);
  // Of those that the kubelet takes for free the ones that were used longest ago.
  [[nodiscard]] std::vector<std::string> prefer(std::vector<std::string> available,
                                                const std::vector<std::string>& must,
                                                std::size_t count) const;
  // The container with these slots is about to start, for the first time or again. Any error is
  // worth another try, and the kubelet makes it.
  [[nodiscard]] Status start_container(const std::vector<std::string>& slots);
  // Releases what pods held that have ended or are gone; how many there were.
  std::size_t sweep();
  // Sweeps again and again, on a thread of its own.
  void start();

 private:
  [[nodiscard]] bool release_if_over(const ClaimRecord& record);
  void run();

  const Options options_;
  PreparedClaims& claims_;
  PodResources& resources_;
  kube::ApiServer& api_;
  std::size_t first_ = 0;  // whom the next sweep asks about first; of whoever sweeps
  std::mutex mutex_;
  std::condition_variable changed_;
  bool stopped_ = false;
  std::thread thread_;
};

}  // namespace divvy::kubelet
