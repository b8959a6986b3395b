// Divvy as the kubelet's device plugin for slots (divvy.dev/slot): a server on a Unix socket in the
// kubelet's folder of device plugins. A kubelet that starts forgets its plugins and removes their
// sockets, so the folder is watched, and the plugin serves and registers again. gRPC stays inside
// device_plugin.cc.
//
// One instance at a time: when the stream of an old one ends, the kubelet drops the new one too.
#pragma once

#include <cstddef>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "kubelet/node_view.h"
#include "kubelet/slot_pods.h"

namespace divvy::kubelet {

// "slot-0000", ...: so many for each GPU, because nobody may wait for a slot who has a slice.
[[nodiscard]] std::vector<std::string> slot_names(std::size_t gpus);

class DevicePlugin {
 public:
  // Serves from here on, and registers as soon as there is a kubelet. `folder` exists
  // (/var/lib/kubelet/device-plugins, wherever the rest of the kubelet's files are). What it refers
  // to outlives it.
  [[nodiscard]] static Result<std::unique_ptr<DevicePlugin>> create(std::filesystem::path folder,
                                                                    SlotPods& pods, NodeView& view);
  // Calls that run are answered first. Stops `view`, for which the stream waits.
  ~DevicePlugin();
  DevicePlugin(const DevicePlugin&) = delete;
  DevicePlugin& operator=(const DevicePlugin&) = delete;

  [[nodiscard]] const std::filesystem::path& socket() const;
  // Whether the kubelet that runs now has said that it knows us.
  [[nodiscard]] bool is_registered() const;

 private:
  class Impl;
  explicit DevicePlugin(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace divvy::kubelet
