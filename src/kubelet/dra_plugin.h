// Divvy as the kubelet's plugin for resource claims (DRA): a server on two Unix sockets in the
// kubelet's folders, one by which the kubelet finds the plugin, one for its calls. The kubelet uses
// one connection for everything; each call is served on a thread of its own, and so is each claim
// of a call.
//
// The sockets carry the name of this instance, so that a new one can stand beside the old one
// during an upgrade. gRPC stays inside dra_plugin.cc.
#pragma once

#include <filesystem>
#include <memory>
#include <string>

#include "base/clock.h"
#include "base/result.h"
#include "kubelet/node_view.h"
#include "kubelet/prepared_claims.h"

namespace divvy::kubelet {

class DraPlugin {
 public:
  struct Options {
    std::filesystem::path kubelet_root = "/var/lib/kubelet";
    std::string instance;  // the uid of our pod, or the number of this process
    // How often the health of the devices is told where nothing changes.
    std::chrono::milliseconds health_interval = std::chrono::seconds(10);
  };

  // Serves from here on. Removes the sockets of instances before it: it is the only one that runs.
  // What it refers to outlives it. kNotFound: there is no kubelet.
  [[nodiscard]] static Result<std::unique_ptr<DraPlugin>> create(Options options,
                                                                 PreparedClaims& claims,
                                                                 NodeView& view, Clock& clock);
  // The kubelet sees it go; calls that run are answered first. Stops `view`, for which the streams
  // of health wait.
  ~DraPlugin();
  DraPlugin(const DraPlugin&) = delete;
  DraPlugin& operator=(const DraPlugin&) = delete;

  [[nodiscard]] const std::filesystem::path& registration_socket() const;
  [[nodiscard]] const std::filesystem::path& calls_socket() const;
  // Whether the kubelet has said that it knows us.
  [[nodiscard]] bool is_registered() const;

 private:
  class Impl;
  explicit DraPlugin(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace divvy::kubelet
