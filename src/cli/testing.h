// A machine to print in the tests of this room.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <utility>

#include "base/check.h"
#include "cli/style.h"
#include "model/node.h"
#include "model/testing.h"

namespace divvy::cli {

inline model::Gpu test_gpu(std::uint32_t index) {
  model::Gpu gpu;
  gpu.index = model::GpuIndex(index);
  gpu.uuid = model::test_uuid(index);
  gpu.name = "NVIDIA H200";
  gpu.memory_total = mib(143'771);
  gpu.memory_used = gib(12) + mib(300);
  gpu.memory_reserved = mib(600);
  gpu.driver_version = "580.159.04";
  gpu.pci = model::PciAddress::create(0, 0x18 + index, 0, 0).value();
  gpu.minor_number = index;
  gpu.numa_node = index / 2;
  gpu.compute_capability = model::ComputeCapability{9, 0};
  gpu.temperature_c = 41;
  gpu.power_mw = 212'300;
  gpu.power_limit_mw = 700'000;
  gpu.utilization_percent = 37;
  gpu.mig_mode = model::MigMode::kDisabled;
  gpu.health.state = model::HealthState::kHealthy;
  return gpu;
}

// `count` GPUs that are joined by 18 NVLinks each.
inline model::Node::Parts test_parts(std::uint32_t count) {
  model::Node::Parts parts;
  parts.hostname = "box";
  parts.driver_version = "580.159.04";
  parts.cuda_version = model::CudaVersion{13, 0};
  parts.topology = model::Topology(count);
  for (std::uint32_t i = 0; i < count; ++i) {
    parts.gpus.push_back(test_gpu(i));
    EXPECT_TRUE(parts.topology.set_affinity(
        i, {.cpus = i < 2 ? "0-31,64-95" : "32-63,96-127", .numa_node = i / 2}));
    for (std::uint32_t j = 0; j < i; ++j) {
      EXPECT_TRUE(parts.topology.set_link(i, j, model::nvlink(18)));
    }
  }
  return parts;
}

inline model::Node test_node(model::Node::Parts parts) {
  auto node = model::Node::create(std::move(parts));
  DIVVY_CHECK(node.has_value(), "{}", node.error().message);
  return *std::move(node);
}

// A terminal that can show everything, but without colours, which would make the expected text
// unreadable.
inline Style test_style() {
  Style style;
  style.unicode = true;
  style.decoration = true;
  return style;
}

inline Style plain_style() { return {}; }

}  // namespace divvy::cli
