// What this node says about itself at this moment: the machine's state as its agent tells, and what
// is held for claims. Whoever passes it on waits for it to change. Callable from any thread.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>

#include "agent/agent.h"
#include "kubelet/claim_record.h"

namespace divvy::kubelet {

class NodeView {
 public:
  struct Snapshot {
    std::uint64_t version = 0;  // higher whenever something else is different
    agent::MachineState state = {};
    std::map<std::string, ClaimRecord> claims = {};  // by uid
  };

  // `node` is its name in Kubernetes, which need not be the machine's own.
  explicit NodeView(std::string node) : node_(std::move(node)) {}

  [[nodiscard]] const std::string& node() const { return node_; }
  [[nodiscard]] Snapshot now() const;
  void set_state(agent::MachineState state);
  // Where the agent has told nothing yet, which would be newer.
  void set_first_state(agent::MachineState state);
  void set_claims(std::map<std::string, ClaimRecord> claims);
  // What the agent tells.
  void hear(const agent::News& news);

  // Until the version is another than `seen`, or the time is up, or stop() was called.
  void await_change(std::uint64_t seen, std::chrono::milliseconds most) const;
  // Nobody waits any more from here on.
  void stop();
  [[nodiscard]] bool is_stopped() const;

 private:
  const std::string node_;
  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;
  Snapshot snapshot_;
  bool stopped_ = false;
};

// What has become of one device of a claim.
struct DeviceHealth {
  std::string device;
  bool healthy = true;
  std::string message;  // why it is not
  friend bool operator==(const DeviceHealth&, const DeviceHealth&) = default;
};
// Of every device that is held.
[[nodiscard]] std::vector<DeviceHealth> health_of(const NodeView::Snapshot& snapshot);

}  // namespace divvy::kubelet
