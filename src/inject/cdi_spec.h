// A file by which container runtimes learn of devices (Container Device Interface), as values, and
// as the JSON that runtimes read. https://github.com/cncf-tags/container-device-interface says what
// the fields mean; only those that Divvy uses are here, and a runtime refuses a file with any
// other.
//
// Pure, callable from any thread.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace divvy::inject {

struct CdiDeviceNode {
  std::string path;       // In the container
  std::string host_path;  // Empty: the same
  friend bool operator==(const CdiDeviceNode&, const CdiDeviceNode&) = default;
};

struct CdiMount {
  std::string host_path;
  std::string container_path;
  std::vector<std::string> options;
  friend bool operator==(const CdiMount&, const CdiMount&) = default;
};

// What becomes of a container that gets the device.
struct CdiEdits {
  std::vector<std::string> env;  // "NAME=VALUE"
  std::vector<CdiDeviceNode> device_nodes;
  std::vector<CdiMount> mounts;
  friend bool operator==(const CdiEdits&, const CdiEdits&) = default;
};

struct CdiDevice {
  std::string name;
  CdiEdits edits;
};

struct CdiSpec {
  std::string kind;  // "divvy.dev/gpu"
  std::vector<CdiDevice> devices;
  CdiEdits edits;  // For a container that gets any of the devices
};

// Refuses what runtimes would refuse: a kind or name of wrong letters, two devices of one name, a
// device without edits, a path that is not absolute, a variable without "=".
[[nodiscard]] Status check(const CdiSpec& spec);

// The oldest version of the format that has all the fields in use: older runtimes can read it too.
[[nodiscard]] std::string_view minimum_version(const CdiSpec& spec);

// One field per line, for people who look into it. `spec` has passed check().
[[nodiscard]] std::string to_json(const CdiSpec& spec);

// The kind that a file says it is of; empty when it is no such file.
[[nodiscard]] std::string kind_of_cdi_file(std::string_view text);

}  // namespace divvy::inject
