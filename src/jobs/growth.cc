#include "jobs/growth.h"

#include <algorithm>
#include <optional>
#include <set>
#include <tuple>
#include <utility>

#include "base/check.h"

namespace divvy::jobs {
namespace {

class Grower {
 public:
  Grower(const QueueView& view, std::span<const NodeKind> kinds, GrowthLimits limits)
      : view_(view),
        kinds_(kinds),
        limits_(limits),
        cluster_(view.fleet.cluster()),
        tree_(view.tree_after_claims().value_or(view.tree)),
        added_(kinds.size()),
        jobs_(kinds.size()) {
    for (const auto& [id, claim] : view.reservations.claims()) place::hold(cluster_, claim.spots);
    kind_of_.resize(cluster_.size());
  }

  Growth run() {
    Growth growth;
    std::uint32_t looked = 0;
    for (const model::JobId id : view_.order()) {
      if (looked++ == limits_.jobs) break;
      if (view_.reservations.claims().contains(id)) continue;
      if (!find_room(view_.book.at(id))) growth.not_helped.push_back(id);
    }
    for (std::size_t i = 0; i < kinds_.size(); ++i) {
      if (added_[i] != 0) growth.wanted.push_back({i, added_[i], std::move(jobs_[i])});
    }
    return growth;
  }

 private:
  struct Option {
    std::size_t kind = 0;
    std::uint32_t nodes = 0;
    place::Cluster cluster;
    std::vector<place::Spot> spots;
  };

  // True: it has its place, or no node would help.
  bool find_room(const Entry& entry) {
    const std::uint32_t members = view_.members_allowed(entry, tree_);
    if (members == 0) return true;
    place::Request request = view_.request_for(entry);
    const bool any_device = view_.shapes[entry.shape].request.devices.empty();
    request.members = members;
    if (any_device && !request.devices.empty()) {
      request.devices.insert(request.devices.end(), devices_.begin(), devices_.end());
    }
    if (auto spots = plan(cluster_, request); !spots.empty()) {
      take(entry, spots);
      return true;
    }
    const std::tuple known(entry.shape, members);
    if (never_.contains(known)) return false;
    std::optional<Option> best;
    for (std::size_t kind = 0; kind < kinds_.size(); ++kind) {
      auto option = with_more(kind, request, any_device, best);
      if (option) best = std::move(option);
    }
    if (!best) {
      never_.insert(known);
      return false;
    }
    for (std::size_t i = cluster_.size(); i < best->cluster.size(); ++i) {
      const place::NodeId node(static_cast<std::uint32_t>(i));
      for (const place::DeviceSpec& device : best->cluster.spec(node).devices) {
        devices_.push_back(device.uuid);
      }
    }
    cluster_ = std::move(best->cluster);
    kind_of_.resize(cluster_.size(), best->kind);
    added_[best->kind] += best->nodes;
    all_added_ += best->nodes;
    take(entry, best->spots);
    return true;
  }

  // The fewest nodes of one kind with which it fits, if that is fewer GPUs than the best so far.
  std::optional<Option> with_more(std::size_t kind, place::Request request, bool any_device,
                                  const std::optional<Option>& best) {
    const NodeKind& like = kinds_[kind];
    const std::uint32_t room =
        std::min(limits_.nodes - all_added_, like.most - std::min(like.most, added_[kind]));
    // Each member is on one node at worst.
    const std::uint32_t most = std::min(room, request.least());
    Option option{kind, 0, cluster_, {}};
    while (option.nodes < most) {
      if (tries_++ == limits_.tries) return std::nullopt;
      ++option.nodes;
      if (best && option.nodes * like.node.devices.size() >=
                      best->nodes * kinds_[best->kind].node.devices.size()) {
        return std::nullopt;
      }
      const place::NodeSpec node = another(like, option.nodes);
      if (any_device && !request.devices.empty()) {
        for (const place::DeviceSpec& device : node.devices) request.devices.push_back(device.uuid);
      }
      if (!option.cluster.add(node)) return std::nullopt;
      option.spots = plan(option.cluster, request);
      if (option.spots.empty()) continue;
      return option;
    }
    return std::nullopt;
  }

  [[nodiscard]] place::NodeSpec another(const NodeKind& like, std::uint32_t number) const {
    place::NodeSpec node = like.node;
    node.name = fmt::format("{} +{}", like.node.name, all_added_ + number);
    for (std::size_t i = 0; i < node.devices.size(); ++i) {
      node.devices[i].uuid = fmt::format("{}/{}", node.name, i);
    }
    return node;
  }

  [[nodiscard]] std::vector<place::Spot> plan(place::Cluster& cluster,
                                              const place::Request& request) const {
    auto policy = place::make_policy(view_.settings.policy);
    DIVVY_CHECK(policy.has_value(), "{}", policy.error().message);
    return place::Placer(cluster, *std::move(policy)).plan(request);
  }

  void take(const Entry& entry, std::span<const place::Spot> spots) {
    std::set<std::size_t> kinds;
    for (const place::Spot& spot : spots) {
      cluster_.take(spot, entry.job.id.value());
      if (const auto kind = kind_of_.at(spot.node.value())) kinds.insert(*kind);
    }
    for (const std::size_t kind : kinds) jobs_[kind].push_back(entry.job.id);
    tree_->take(entry.queue, entry.user,
                view_.least(entry, static_cast<std::uint32_t>(spots.size())));
  }

  const QueueView& view_;
  std::span<const NodeKind> kinds_;
  const GrowthLimits limits_;
  place::Cluster cluster_;
  std::optional<QueueTree> tree_;                    // with those that were given a place here
  std::vector<std::optional<std::size_t>> kind_of_;  // nodes; nothing: it is there already
  std::vector<std::uint32_t> added_;                 // by kind
  std::vector<std::vector<model::JobId>> jobs_;      // likewise
  std::vector<std::string> devices_;                 // of nodes that were added
  std::set<std::tuple<ShapeId, std::uint32_t>> never_;
  std::uint32_t all_added_ = 0;
  std::uint32_t tries_ = 0;
};

}  // namespace

Status check(const NodeKind& kind) { return place::check(kind.node); }

Growth plan_growth(const QueueView& view, std::span<const NodeKind> kinds, GrowthLimits limits) {
  return Grower(view, kinds, limits).run();
}

}  // namespace divvy::jobs
