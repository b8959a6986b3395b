// The cluster as placement sees it: which node has what, and who holds how much of it. A value
// without clock or I/O: the same calls in the same order give the same cluster.
//
// Every change goes into a log of node numbers, by which whoever keeps something about nodes (the
// score tables) catches up, and, between mark() and rollback(), into a journal that takes it back:
// a what-if costs what it changes. Used by one thread.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/result.h"
#include "model/device_links.h"
#include "place/ask.h"
#include "place/node_spec.h"
#include "place/request.h"

namespace divvy::place {

using ShapeId = std::uint16_t;

// Nodes that differ in nothing but names, labels and who is on them.
struct NodeShape {
  std::int64_t cpu_milli = 0;
  std::int64_t ram = 0;
  std::uint8_t devices = 0;
  std::array<ModelId, kMaxDevices> model{};
  std::array<std::uint64_t, kMaxDevices> memory{};
  // Numbers from 0; 255 where it is not known.
  std::array<std::uint8_t, kMaxDevices> nvlink{};
  std::array<std::uint8_t, kMaxDevices> pcie{};
  std::array<std::uint8_t, kMaxDevices> numa{};
  friend bool operator==(const NodeShape&, const NodeShape&) = default;

  ModelSet models = 0;   // of all GPUs together
  bool uniform = false;  // they have one model and as much memory each
  model::DeviceLinks links = {};
};

// What is left on a node. `free` is what policies look at: thousandths of each GPU that can still
// be given out, which is the smaller one of compute and memory, and nothing where the GPU is not
// usable. What is looked at most comes first, so that it lies in one line of the cache for a node
// with eight GPUs.
struct alignas(64) NodeState {
  std::int64_t cpu_free = 0;
  std::int64_t ram_free = 0;
  std::uint16_t usable = 0;  // a bit for each healthy GPU
  std::uint16_t whole = 0;   // a bit for each GPU that is usable and wholly free
  std::uint16_t most_free = 0;
  std::uint16_t whole_count = 0;
  std::uint32_t idle = 0;  // the sum of `free`
  std::uint32_t members = 0;
  std::uint32_t members_left = 0;  // so many more it takes
  // What kinds of members are there: bit 0 without GPU, bit 1 with a part of one, bit n + 1 with n
  // whole GPUs (one with a part more counts as the next number).
  std::uint32_t kinds = 0;
  ShapeId shape = 0;
  bool open = true;  // takes new members: there, and not cordoned
  std::array<std::uint16_t, kMaxDevices> free{};
  std::array<std::uint16_t, kMaxDevices> share_free{};
  std::array<std::uint64_t, kMaxDevices> memory_free{};
};

using HoldingId = StrongId<struct HoldingIdTag>;

// A member that runs. Jobs are numbered by whoever calls.
struct Holding {
  Spot spot;
  std::uint64_t job = 0;
  std::int32_t priority = 0;
  bool preemptible = true;
  bool live = false;
};

class Cluster {
 public:
  Cluster();

  // --- Nodes ---

  // Refused: a name that exists, more than kMaxModels models.
  [[nodiscard]] Result<NodeId> add(NodeSpec spec);
  [[nodiscard]] std::size_t size() const { return specs_.size(); }
  [[nodiscard]] const NodeSpec& spec(NodeId node) const { return specs_[node.value()]; }
  [[nodiscard]] const NodeState& state(NodeId node) const { return states_[node.value()]; }
  [[nodiscard]] const NodeShape& shape(NodeId node) const {
    return shapes_[states_[node.value()].shape];
  }
  [[nodiscard]] const std::vector<NodeShape>& shapes() const { return shapes_; }
  // By rack and zone: numbers that are the same for the same name; nameless is one domain too.
  [[nodiscard]] std::uint32_t rack(NodeId node) const { return racks_of_[node.value()]; }
  [[nodiscard]] std::uint32_t zone(NodeId node) const { return zones_of_[node.value()]; }
  [[nodiscard]] std::size_t racks() const { return rack_names_.size(); }
  [[nodiscard]] std::size_t zones() const { return zone_names_.size(); }
  [[nodiscard]] std::optional<NodeId> find(std::string_view name) const;
  [[nodiscard]] const std::vector<std::string>& models() const { return models_; }
  // Capacity of everything that was added, in thousandths of a GPU, and what is handed out.
  [[nodiscard]] std::uint64_t total_share() const { return total_share_; }
  [[nodiscard]] std::uint64_t held_share() const { return held_share_; }

  // Work that is there stays; no new work comes. A reason for people, empty to open again.
  void cordon(NodeId node, std::string reason);
  void set_unusable(NodeId node, std::size_t device, std::string reason);
  [[nodiscard]] const std::string& cordon_reason(NodeId node) const;
  [[nodiscard]] const std::string& unusable_reason(NodeId node, std::size_t device) const;
  // A tenant that may not come to a node, e.g. because of an earlier dispute.
  void exclude(std::string tenant, NodeId node);
  [[nodiscard]] bool excluded(const std::string& tenant, NodeId node) const;
  // Whether any node may be closed to this tenant: by an exclusion or by a taint.
  [[nodiscard]] bool restricts(const std::string& tenant) const {
    return any_taint_ || exclusions_.contains(tenant);
  }

  // --- Holdings ---

  // The spot has to fit: whoever decided has looked.
  HoldingId take(const Spot& spot, std::uint64_t job = 0, std::int32_t priority = 0,
                 bool preemptible = true);
  void release(HoldingId holding);
  [[nodiscard]] const Holding& holding(HoldingId id) const { return holdings_[id.value()]; }
  [[nodiscard]] std::size_t live_holdings() const { return live_; }
  // Those on one node, in the order in which they came.
  [[nodiscard]] const std::vector<HoldingId>& on(NodeId node) const { return on_[node.value()]; }
  // Does the spot fit as things are?
  [[nodiscard]] bool fits(const Spot& spot) const;

  // --- Asks ---

  // The models of the request by this cluster's numbers, and so on. What it says about nodes is not
  // in it (see Eligible).
  [[nodiscard]] Ask ask_of(const Request& request) const;

  // --- What changed ---

  // Entries [from, log_end()) are the nodes that changed since; a reader that fell behind
  // log_begin() has to look at every node.
  [[nodiscard]] std::uint64_t log_begin() const { return log_begin_; }
  [[nodiscard]] std::uint64_t log_end() const { return log_end_; }
  [[nodiscard]] NodeId logged(std::uint64_t entry) const {
    return NodeId(log_[entry & (log_.size() - 1)]);
  }
  // The last log entry of a node: earlier ones say nothing more.
  [[nodiscard]] std::uint64_t last_logged(NodeId node) const { return last_logged_[node.value()]; }

  // --- What if ---

  using Mark = std::size_t;
  [[nodiscard]] Mark mark();
  // Takes back everything since. Marks are rolled back or dropped in the opposite order.
  void rollback(Mark mark);
  void keep(Mark mark);

 private:
  struct Step {
    HoldingId holding;
    bool taken;
    Holding before;     // of a release
    std::size_t place;  // of a release: where it stood on its node
  };

  void apply(const Spot& spot, int sign);
  void refresh(NodeId node);
  static void refresh_device(NodeState& state, const NodeShape& shape, std::size_t device);
  void touch(NodeId node);
  void put(HoldingId id);
  std::size_t unput(HoldingId id);

  std::vector<NodeSpec> specs_;
  std::vector<NodeState> states_;
  std::vector<std::array<std::uint32_t, kMaxDevices + 2>> kind_counts_;
  std::vector<NodeShape> shapes_;
  std::vector<std::uint32_t> racks_of_;
  std::vector<std::uint32_t> zones_of_;
  std::unordered_map<std::string, std::uint32_t> rack_names_;
  std::unordered_map<std::string, std::uint32_t> zone_names_;
  std::unordered_map<std::string, std::uint32_t> names_;
  std::vector<std::string> models_;
  std::vector<std::string> cordons_;
  std::vector<std::vector<std::string>> unusable_;
  std::unordered_map<std::string, std::vector<std::uint32_t>> exclusions_;
  bool any_taint_ = false;
  std::vector<Holding> holdings_;
  std::vector<std::uint32_t> free_holdings_;
  std::vector<std::vector<HoldingId>> on_;
  std::size_t live_ = 0;
  std::uint64_t total_share_ = 0;
  std::uint64_t held_share_ = 0;
  std::vector<std::uint32_t> log_;
  std::uint64_t log_begin_ = 0;
  std::uint64_t log_end_ = 0;
  std::vector<std::uint64_t> last_logged_;
  std::vector<Step> journal_;
  std::size_t marks_ = 0;
};

}  // namespace divvy::place
