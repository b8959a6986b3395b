// Divvy's own policy: put a member where the rest of the node stays most useful.
//
// Assumptions: what kind of requests come is known (the workload), which one comes next is not. A
// node that nothing usual fits any more has lost its idle rest.
//
// Algorithm: the cost of a choice is what it changes in the worth of the node (node_worth.h), plus
// - a little for what is left idle, so that of equal nodes the fuller one is taken;
// - less, by next to nothing, for GPUs that are near each other and break no connected set;
// - what the member takes, by how scarce nodes of this shape are: those that others can do without
// are
//   used first. A member counts by GPUs or by CPUs, whichever is the larger part of the node.
// For a part of a GPU two ways are tried: the tightest GPU in use, and a wholly free one.
//
// The weights were found on arrival orders made for that purpose (docs/placement.md), not on the
// ones by which the policy is judged.
#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include <boost/container/static_vector.hpp>

#include "place/node_worth.h"
#include "place/policies.h"

namespace divvy::place {
namespace {

constexpr float kIdleWeight = 0.001F;
constexpr float kScarcityWeight = 0.3F;
// Costs are in thousandths of a GPU: half of one decides only between what is otherwise equal.
constexpr float kNearCost = 0.5F;

class DivvyPolicy final : public Policy {
 public:
  void prepare(const Cluster& cluster, const Workload& workload) override {
    worth_.prepare(cluster, workload);
    shapes_ = cluster.shapes().size();
    experience_.clear();
  }

  [[nodiscard]] bool rough() const override { return true; }

  Choice choose(const NodeView& node, const Ask& ask) override {
    Ways ways = ways_of(node, ask);
    if (ways.size() == 1) return ways.front().choice;
    NodeWorth::Key before = has_note(node) ? NodeWorth::Key{} : key_before(node);
    return best_of(node, ask, ways, before, Care::kExact).choice;
  }

  float score(const NodeView& node, const Ask& ask, const Choice& choice) override {
    Way way = way_with(node, ask, choice);
    NodeWorth::Key before = key_before(node);
    return score_of(node, ask, way, before, Care::kExact);
  }

  Offer offer(const NodeView& node, const Ask& ask) override {
    return best(node, ask, Care::kGuess);
  }

  // Most of the time would go into waiting for what is remembered of the states, one by one.
  void offer_all(std::span<const NodeView> nodes, const Ask& ask,
                 std::span<float> scores) override {
    constexpr std::size_t kAtOnce = 16;
    std::array<Ways, kAtOnce> ways;
    std::array<NodeWorth::Key, kAtOnce> before;  // of the nodes without a note
    for (std::size_t from = 0; from < nodes.size(); from += kAtOnce) {
      const std::size_t count = std::min(kAtOnce, nodes.size() - from);
      for (std::size_t i = 0; i < count; ++i) {
        const NodeView& node = nodes[from + i];
        ways[i] = ways_of(node, ask);
        for (const Way& way : ways[i]) worth_.prefetch_row(way.key);
        if (has_note(node)) continue;
        before[i] = key_before(node);
        worth_.prefetch_row(before[i]);
      }
      for (std::size_t i = 0; i < count; ++i) {
        for (Way& way : ways[i]) worth_.prefetch_cell(way.key);
        if (!has_note(nodes[from + i])) worth_.prefetch_cell(before[i]);
      }
      for (std::size_t i = 0; i < count; ++i) {
        scores[from + i] = best_of(nodes[from + i], ask, ways[i], before[i], Care::kGuess).score;
      }
    }
  }

  Offer settle(const NodeView& node, const Ask& ask) override {
    return best(node, ask, Care::kExact);
  }

 private:
  enum class Care { kGuess, kExact };

  // How the worth of nodes of one shape changed when an ask was put there in one way: the mean, the
  // mean deviation from it, and how often that was seen. For nodes in states never seen before.
  struct Experience {
    float mean = 0;
    float deviation = 0;
    std::uint32_t seen = 0;

    void add(float change) {
      seen = std::min(seen + 1, 64U);
      const float weight = 1.0F / static_cast<float>(seen);
      if (seen > 1) deviation += (std::abs(change - mean) - deviation) * weight;
      mean += (change - mean) * weight;
    }
  };
  static constexpr std::uint32_t kEnoughSeen = 8;
  // By what is left of the GPU that is used in part, in steps, or by how many whole ones are left.
  static constexpr std::size_t kWays = 40;
  static constexpr std::uint32_t kPartSteps = 21;

  // A way to put the ask on a node, and what is left then.
  struct Way {
    Choice choice;
    std::uint32_t taken;  // thousandths of a GPU
    std::uint32_t kind;   // of experience
    NodeWorth::Key key;   // of what is left
  };
  using Ways = boost::container::static_vector<Way, 2>;

  static std::uint32_t kind_of(const NodeView& node, const Ask& ask, const Choice& choice,
                               std::uint32_t left) {
    if (choice.part_device < 0) {
      const int whole = static_cast<int>(node.state.whole_count) - static_cast<int>(ask.whole);
      return kPartSteps + 1 + static_cast<std::uint32_t>(std::max(whole, 0));
    }
    return (node.state.whole >> choice.part_device & 1) != 0 ? kPartSteps : left / 50U;
  }

  Experience& experience(const NodeView& node, const Ask& ask, std::size_t kind) {
    const std::size_t row = ask.number * shapes_ + node.state.shape;
    if (experience_.size() <= row * kWays + kWays)
      experience_.resize((row + shapes_) * kWays + kWays);
    return experience_[row * kWays + std::min(kind, kWays - 1)];
  }

  static bool has_note(const NodeView& node) {
    return node.note != nullptr && !std::isnan(*node.note);
  }

  NodeWorth::Key key_before(const NodeView& node) const {
    return worth_.key_of(node.state.shape, node.state.cpu_free, node.state.free);
  }

  // The key is needed only for nodes without a note.
  float worth_before(const NodeView& node, NodeWorth::Key& key, Care care) {
    if (has_note(node)) return *node.note;
    if (care == Care::kGuess) {
      const auto known = worth_.known(key);
      if (known && !known->exact) return known->cost;
    }
    const float worth = worth_.cost(node.state.shape, key, node.state.free);
    if (node.note != nullptr) *node.note = worth;
    return worth;
  }

  // A guess is on the good side: one that wins is worked out before it is believed.
  float worth_after(const NodeView& node, const Ask& ask, Way& way, float before, Care care) {
    Experience& seen = experience(node, ask, way.kind);
    if (care == Care::kGuess) {
      const auto known = worth_.known(way.key);
      if (known) return known->cost;
      if (seen.seen >= kEnoughSeen) return before + seen.mean - seen.deviation;
    }
    const float after =
        worth_.cost(node.state.shape, way.key, free_after(node, way.choice, way.taken));
    seen.add(after - before);
    return after;
  }

  static NodeWorth::Free free_after(const NodeView& node, const Choice& choice,
                                    std::uint32_t taken) {
    NodeWorth::Free free = node.state.free;
    for (unsigned left = choice.whole; left != 0; left &= left - 1) {
      free[static_cast<std::size_t>(std::countr_zero(left))] = 0;
      taken -= Share::kWhole;
    }
    if (choice.part_device >= 0) {
      std::uint16_t& left = free[static_cast<std::size_t>(choice.part_device)];
      left = static_cast<std::uint16_t>(left - taken);
    }
    return free;
  }

  Way way_with(const NodeView& node, const Ask& ask, const Choice& choice) const {
    const NodeState& state = node.state;
    auto taken = static_cast<std::uint32_t>(Share::kWhole * std::popcount(choice.whole));
    std::uint32_t left = 0;
    if (choice.part_device >= 0) {
      const auto device = static_cast<std::size_t>(choice.part_device);
      left = state.free[device];
      const std::uint32_t size = std::min(part_size(ask, node.shape.memory[device]), left);
      taken += size;
      left -= size;
    }
    return {choice, taken, kind_of(node, ask, choice, left),
            worth_.key_of(state.shape, state.cpu_free - ask.cpu_milli,
                          free_after(node, choice, taken))};
  }

  // For a part, in this order: the tightest GPU in use, and a wholly free one.
  Ways ways_of(const NodeView& node, const Ask& ask) const {
    Ways found;
    if (ask.whole != 0 || !ask.wants_part()) {
      found.push_back(way_with(node, ask, tightest(node, ask)));
      return found;
    }
    const auto consider = [&](int device) {
      found.push_back(way_with(node, ask, {0, static_cast<std::int16_t>(device)}));
    };
    const std::uint16_t fitting = part_devices(node, ask);
    const unsigned whole = fitting & node.state.whole;
    int tight = -1;
    for (unsigned left = fitting & ~whole; left != 0; left &= left - 1) {
      const int device = std::countr_zero(left);
      const auto at = [&](int i) { return node.state.free[static_cast<std::size_t>(i)]; };
      if (tight < 0 || at(device) < at(tight)) tight = device;
    }
    if (tight >= 0) consider(tight);
    if (whole != 0) consider(least_breaking(node, static_cast<std::uint16_t>(whole)));
    return found;
  }

  Offer best(const NodeView& node, const Ask& ask, Care care) {
    Ways ways = ways_of(node, ask);
    NodeWorth::Key before = has_note(node) ? NodeWorth::Key{} : key_before(node);
    return best_of(node, ask, ways, before, care);
  }

  Offer best_of(const NodeView& node, const Ask& ask, Ways& ways, NodeWorth::Key& before,
                Care care) {
    Offer found{{}, std::numeric_limits<float>::lowest()};
    for (Way& way : ways) {
      const float score = score_of(node, ask, way, before, care);
      if (score > found.score) found = {way.choice, score};
    }
    return found;
  }

  float score_of(const NodeView& node, const Ask& ask, Way& way, NodeWorth::Key& key_of_before,
                 Care care) {
    const float before = worth_before(node, key_of_before, care);
    const float rest = worth_after(node, ask, way, before, care);
    const float by_cpu = node.shape.cpu_milli == 0
                             ? 0
                             : static_cast<float>(ask.cpu_milli) * Share::kWhole *
                                   node.shape.devices / static_cast<float>(node.shape.cpu_milli);
    const float size = std::max(static_cast<float>(way.taken), by_cpu);
    return -(rest - before + kIdleWeight * static_cast<float>(node.state.idle - way.taken) +
             kScarcityWeight * worth_.scarcity(node.state.shape) * size -
             kNearCost * nearness(node, way.choice));
  }

  NodeWorth worth_;
  std::size_t shapes_ = 0;
  std::vector<Experience> experience_;  // by ask, shape and kind of way
};

}  // namespace

std::unique_ptr<Policy> make_divvy() { return std::make_unique<DivvyPolicy>(); }

}  // namespace divvy::place
