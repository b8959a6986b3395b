// Small clusters for the tests of explanations and plans.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "place/lots.h"
#include "place/placer.h"

namespace divvy::place::testing {

inline NodeSpec node(std::string name, std::size_t gpus, Bytes memory = gib(80),
                     std::string model = "NVIDIA A100") {
  NodeSpec spec;
  spec.name = std::move(name);
  spec.cpu_milli = 64'000;
  spec.ram = gib(512);
  for (std::size_t i = 0; i < gpus; ++i) {
    DeviceSpec device;
    device.model = model;
    device.memory = memory;
    device.nvlink_island = static_cast<std::uint32_t>(i / 4);
    device.pcie_switch = static_cast<std::uint32_t>(i / 2);
    device.numa_node = static_cast<std::uint32_t>(i / 4);
    spec.devices.push_back(device);
  }
  return spec;
}

inline Request gpus(std::uint32_t whole, std::uint32_t part = 0, std::string name = "train") {
  Request request;
  request.name = std::move(name);
  request.member.whole_gpus = whole;
  request.member.part = Share(part);
  return request;
}

inline Request gang(std::uint32_t members, std::uint32_t whole, std::uint32_t part = 0) {
  Request request = gpus(whole, part);
  request.members = members;
  return request;
}

// A cluster and a placer on it.
struct Fleet {
  Cluster cluster;
  std::unique_ptr<Placer> placer;

  explicit Fleet(std::vector<NodeSpec> nodes, std::string_view policy = "bestfit") {
    for (NodeSpec& spec : nodes) {
      const auto added = cluster.add(std::move(spec));
      if (!added) ADD_FAILURE() << added.error().message;
    }
    placer = std::make_unique<Placer>(cluster, *make_policy(policy));
  }

  // Whole GPUs by number.
  HoldingId take(std::uint32_t node, std::uint16_t whole, std::uint64_t job = 0,
                 std::int32_t priority = 0, bool preemptible = true) {
    Spot spot;
    spot.node = NodeId(node);
    spot.whole = whole;
    EXPECT_TRUE(cluster.fits(spot));
    return cluster.take(spot, job, priority, preemptible);
  }
  // A part of a GPU with the same part of its memory.
  HoldingId take_part(std::uint32_t node, int device, std::uint32_t part, std::uint64_t job = 0,
                      std::int32_t priority = 0, bool preemptible = true) {
    Spot spot;
    spot.node = NodeId(node);
    spot.part_device = static_cast<std::int16_t>(device);
    spot.part = static_cast<std::uint16_t>(part);
    const std::uint64_t memory =
        cluster.shape(NodeId(node)).memory[static_cast<std::size_t>(device)];
    spot.part_memory = portion(Bytes(memory), Share(part)).count();
    EXPECT_TRUE(cluster.fits(spot));
    return cluster.take(spot, job, priority, preemptible);
  }
  [[nodiscard]] bool fits(const Request& request) { return !placer->plan(request).empty(); }

  // What a plan must leave as it was.
  [[nodiscard]] std::string picture() const {
    std::string text;
    for (std::uint32_t i = 0; i < cluster.size(); ++i) {
      const NodeState& state = cluster.state(NodeId(i));
      text += fmt::format("{} {} {} {} {} {} {}|", state.cpu_free, state.ram_free,
                          fmt::join(state.free, ","), fmt::join(state.memory_free, ","),
                          state.whole, state.members_left, state.open);
      for (const HoldingId id : cluster.on(NodeId(i))) text += fmt::format("{} ", id);
    }
    return text;
  }
};

// Fills a fleet with jobs of one to three members drawn from the lots. Job numbers from 1 on.
inline std::vector<Request> fill(Fleet& fleet, Lots& lots, std::uint32_t jobs,
                                 std::int32_t priorities = 3) {
  std::vector<Request> requests{{}};
  for (std::uint32_t i = 0; i < jobs; ++i) {
    Request request =
        lots.below(2) == 0 ? gpus(1 + lots.below(2)) : gpus(0, 100 + 100 * lots.below(8));
    request.name = fmt::format("job-{}", requests.size());
    request.member.cpu_milli = lots.below(3) * 4'000;
    request.members = lots.below(4) == 0 ? 1 + lots.below(3) : 1;
    request.priority =
        static_cast<std::int32_t>(lots.below(static_cast<std::uint32_t>(priorities)));
    request.preemptible = lots.below(5) != 0;
    const std::vector<Spot> spots = fleet.placer->plan(request);
    if (spots.empty()) continue;
    take_all(fleet.cluster, spots, requests.size(), request.priority, request.preemptible);
    requests.push_back(request);
  }
  return requests;
}

}  // namespace divvy::place::testing
