// The object by which the controller knows this node (gpunodes.divvy.dev): its GPUs, their health
// and what is held for claims. Written whenever one of them changes, and every few seconds as a
// sign of life.
#pragma once

#include <boost/json/fwd.hpp>
#include <chrono>
#include <string>
#include <thread>

#include "base/clock.h"
#include "base/result.h"
#include "kube/api_server.h"
#include "kubelet/node_view.h"

namespace divvy::kubelet {

// Its status (docs/decisions/0022-kubernetes-objects.md). Pure.
struct NodeSigns {
  std::string version;  // of this program
  bool simulated = false;
  WallTime heartbeat = {};
};
[[nodiscard]] boost::json::object gpu_node_status(const NodeView::Snapshot& snapshot,
                                                  const NodeSigns& signs);

class GpuNodePublisher {
 public:
  struct Options {
    std::string version;
    bool simulated = false;
    std::chrono::milliseconds heartbeat = std::chrono::seconds(10);
  };
  // What it refers to outlives it. Nothing is written before start().
  GpuNodePublisher(Options options, kube::ApiServer& api, NodeView& view, Clock& clock)
      : options_(std::move(options)), api_(api), view_(view), clock_(clock) {}
  // Ends with `view`, which it stops.
  ~GpuNodePublisher();
  GpuNodePublisher(const GpuNodePublisher&) = delete;
  GpuNodePublisher& operator=(const GpuNodePublisher&) = delete;

  // Writes again and again, on a thread of its own.
  void start();
  // Writes once, and makes the object where it is missing. One caller at a time.
  [[nodiscard]] Status publish(const NodeView::Snapshot& snapshot);

 private:
  void run();
  [[nodiscard]] Result<std::string> make_object();
  [[nodiscard]] std::string path() const;

  const Options options_;
  kube::ApiServer& api_;
  NodeView& view_;
  Clock& clock_;
  std::string resource_version_;  // after the last write; empty: not known
  std::thread thread_;
};

}  // namespace divvy::kubelet
