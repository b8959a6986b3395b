// Small clusters and requests for the tests of this room.
#pragma once

#include <cstdint>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "base/check.h"
#include "place/cluster.h"
#include "place/request.h"

namespace divvy::place::testing {

inline NodeSpec node(std::string name, std::uint32_t gpus, const std::string& model = "H200",
                     std::uint64_t cpus = 64, Bytes memory = gib(16)) {
  NodeSpec spec;
  spec.name = std::move(name);
  spec.cpu_milli = cpus * 1000;
  spec.ram = gib(256);
  for (std::uint32_t i = 0; i < gpus; ++i) {
    spec.devices.push_back({model, memory, i / 4, i / 2, i / 4, ""});
  }
  return spec;
}

inline NodeId add(Cluster& cluster, NodeSpec spec) {
  auto id = cluster.add(std::move(spec));
  DIVVY_CHECK(id.has_value(), "a test's node was refused: {}", id.error().message);
  return *id;
}

inline Request whole(std::uint32_t gpus, std::uint32_t members = 1) {
  Request request;
  request.name = "job";
  request.member.whole_gpus = gpus;
  request.member.cpu_milli = 1000;
  request.members = members;
  return request;
}

inline Request part(std::uint32_t thousandths, std::uint32_t members = 1) {
  Request request = whole(0, members);
  request.member.part = Share(thousandths);
  return request;
}

// Anything that can be asked for, from small numbers.
inline Request random_request(std::mt19937_64& dice) {
  const auto below = [&dice](std::uint64_t end) { return dice() % end; };
  Request request = whole(0);
  switch (below(5)) {
    case 0:
      request.member.whole_gpus = static_cast<std::uint32_t>(1 + below(8));
      break;
    case 1:
      request.member.whole_gpus = static_cast<std::uint32_t>(1 + below(3));
      request.member.part = Share(static_cast<std::uint32_t>(100 * (1 + below(9))));
      break;
    case 2:
      request.member.memory = gib(1 + below(12));
      break;
    default:
      request.member.part = Share(static_cast<std::uint32_t>(50 * (1 + below(19))));
      if (below(3) == 0) request.member.memory = gib(1 + below(16));
  }
  request.member.cpu_milli = 500 * below(20);
  request.member.ram = gib(below(16));
  if (below(4) == 0) request.allowed_models = {below(2) == 0 ? "H200" : "L4"};
  if (below(6) == 0) request.members = static_cast<std::uint32_t>(2 + below(4));
  if (below(10) == 0) request.gpus = {Closeness::kNvlink, below(2) == 0};
  if (request.members > 1 && below(3) == 0)
    request.members_near = {Closeness::kRack, below(2) == 0};
  if (request.members > 1 && below(4) == 0) request.spread = Spread{Closeness::kNode, 1};
  return request;
}

inline Cluster random_cluster(std::mt19937_64& dice, std::uint32_t nodes) {
  Cluster cluster;
  for (std::uint32_t i = 0; i < nodes; ++i) {
    const bool large = dice() % 2 == 0;
    NodeSpec spec =
        node("n" + std::to_string(i), large ? 8 : static_cast<std::uint32_t>(1 + dice() % 4),
             large ? "H200" : "L4", large ? 96 : 16, large ? gib(16) : gib(8));
    spec.rack = "r" + std::to_string(i / 3);
    add(cluster, std::move(spec));
  }
  return cluster;
}

}  // namespace divvy::place::testing
