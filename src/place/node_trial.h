// A copy of one node's state that can be changed at will: what would fit there if this left and
// that came? Cheaper than a mark on the cluster, because nobody else hears of it. A plain value;
// the cluster outlives it.
#pragma once

#include <array>
#include <cstdint>
#include <optional>

#include "place/cluster.h"
#include "place/fit.h"

namespace divvy::place {

inline constexpr std::uint16_t kAllDevices = 0xffff;

class NodeTrial {
 public:
  // As the node is now. Of its GPUs only `devices` may be used (see Eligible::devices).
  NodeTrial(const Cluster& cluster, NodeId node, std::uint16_t devices = kAllDevices);
  // With nobody on it, open, and every GPU healthy: the most that it could ever be.
  [[nodiscard]] static NodeTrial at_its_best(const Cluster& cluster, NodeId node,
                                             std::uint16_t devices = kAllDevices);

  void add(const Spot& spot) { apply(spot, 1); }
  void remove(const Spot& spot) { apply(spot, -1); }
  // What the spot has is never freed below.
  void keep(const Spot& spot);
  void pin(const Spot& spot) {
    add(spot);
    keep(spot);
  }
  void open() { state_.open = true; }
  void heal(std::size_t device);
  // So much of a GPU, of the CPUs and of the RAM becomes free, whoever has it now, but not more
  // than the ceiling.
  void free_share(std::size_t device, std::uint32_t share, std::uint64_t memory);
  void free_whole(std::size_t device);
  void free_host(std::int64_t cpu_milli, std::int64_t ram);
  void free_member();

  [[nodiscard]] NodeId node() const { return node_; }
  [[nodiscard]] NodeView view() const { return {state_, *shape_, node_}; }
  [[nodiscard]] const NodeState& state() const { return state_; }
  [[nodiscard]] const NodeShape& shape() const { return *shape_; }
  [[nodiscard]] std::uint16_t devices() const { return devices_; }
  [[nodiscard]] bool full() const { return state_.members_left == 0; }

  // What would be free if everybody left who is not pinned.
  struct Ceiling {
    std::int64_t cpu_milli = 0;
    std::int64_t ram = 0;
    std::array<std::uint16_t, kMaxDevices> share{};
    std::array<std::uint64_t, kMaxDevices> memory{};
    std::uint32_t members = 0;  // that can still come
  };
  [[nodiscard]] const Ceiling& ceiling() const { return ceiling_; }

  [[nodiscard]] bool fits(const Ask& ask) const { return !full() && place::fits(view(), ask); }
  [[nodiscard]] Refusal why_not(const Ask& ask) const;
  // Where the member would go; nothing where it does not fit.
  [[nodiscard]] std::optional<Spot> spot(const Ask& ask) const;
  // How many members fit one after the other, up to `most`.
  [[nodiscard]] std::uint32_t count(const Ask& ask, std::uint32_t most) const;

 private:
  void apply(const Spot& spot, int sign);
  void refresh(std::size_t device);

  NodeState state_;
  const NodeShape* shape_;
  Ceiling ceiling_;
  NodeId node_;
  std::uint16_t devices_ = kAllDevices;
};

}  // namespace divvy::place
