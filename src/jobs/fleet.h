// The GPUs that the queue may give to jobs, as whoever knows them says: the daemon of one machine,
// later a cluster. Plain values; handed to jobs::Queue whenever something changed.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "base/units.h"
#include "model/gpu_uuid.h"
#include "place/node_spec.h"

namespace divvy::jobs {

struct FleetGpu {
  model::GpuUuid uuid;
  std::uint32_t index = 0;        // the driver's, by which users name it
  place::DeviceSpec device = {};  // its memory is what CUDA can use
  std::string resting = {};       // why it gets no new work; empty when it does
  bool lost = false;              // and whoever is on it has to leave
  friend bool operator==(const FleetGpu&, const FleetGpu&) = default;
};

struct FleetNode {
  std::string name;
  std::uint64_t cpu_milli = 0;
  Bytes ram;
  std::string closed;  // why it gets no new work; empty when it does
  std::vector<FleetGpu> gpus;
  bool lost = false;  // it is gone, and whoever is on it has to start elsewhere
  std::string rack = {};
  std::string zone = {};
  std::map<std::string, std::string> labels = {};
  std::vector<std::string> taints = {};   // only jobs that tolerate all of them come here
  std::vector<std::string> not_for = {};  // users whose jobs do not come here
  std::uint32_t max_members = 1'000'000;  // at one time
  friend bool operator==(const FleetNode&, const FleetNode&) = default;
};

struct Fleet {
  std::vector<FleetNode> nodes;
  Bytes smallest_slice;  // no member gets less memory on a GPU
  friend bool operator==(const Fleet&, const Fleet&) = default;
};

}  // namespace divvy::jobs
