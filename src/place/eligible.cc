#include "place/eligible.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/text.h"

namespace divvy::place {
namespace {

bool contains(const std::vector<std::string>& list, const std::string& text) {
  return std::ranges::find(list, text) != list.end();
}

// "node-a/3" names GPU 3 of node-a; anything else is a UUID.
bool names_device(const std::string& pin, const NodeSpec& spec, std::size_t device) {
  const DeviceSpec& gpu = spec.devices[device];
  if (!gpu.uuid.empty() && pin == gpu.uuid) return true;
  return pin == spec.name + "/" + std::to_string(device);
}

}  // namespace

Eligible::Eligible(const Cluster& cluster, const Request& request)
    : cluster_(cluster), request_(request) {
  const bool named = !request.nodes.empty() || !request.excluded_nodes.empty() ||
                     !request.devices.empty() || !request.labels.empty();
  everywhere_ = !named && !request.spread && !cluster.restricts(request.tenant);
  if (request.spread) {
    const std::size_t domains = request.spread->domain == Closeness::kNode   ? cluster.size()
                                : request.spread->domain == Closeness::kRack ? cluster.racks()
                                                                             : cluster.zones();
    members_in_.resize(domains);
  }
}

std::uint32_t Eligible::domain_of(Closeness level, NodeId node) const {
  switch (level) {
    case Closeness::kZone:
      return cluster_.zone(node);
    case Closeness::kRack:
      return cluster_.rack(node);
    default:
      return node.value();
  }
}

Refusal Eligible::why_not(NodeId node) const {
  if (domain_ && domain_of(level_, node) != *domain_) return Refusal::kNearness;
  if (everywhere_) return Refusal::kNone;
  const NodeSpec& spec = cluster_.spec(node);
  if (!request_.nodes.empty() && !contains(request_.nodes, spec.name)) return Refusal::kNotNamed;
  if (!request_.devices.empty() && devices(node) == 0) return Refusal::kNotNamed;
  if (contains(request_.excluded_nodes, spec.name)) return Refusal::kExcluded;
  if (cluster_.excluded(request_.tenant, node)) return Refusal::kExcluded;
  for (const auto& [key, value] : request_.labels) {
    const auto label = spec.labels.find(key);
    if (label == spec.labels.end() || label->second != value) return Refusal::kLabels;
  }
  for (const std::string& taint : spec.taints) {
    if (!contains(request_.tolerations, taint)) return Refusal::kTaint;
  }
  if (request_.spread &&
      members_in_[domain_of(request_.spread->domain, node)] >= request_.spread->most) {
    return Refusal::kSpread;
  }
  return Refusal::kNone;
}

std::string Eligible::what(NodeId node) const {
  const NodeSpec& spec = cluster_.spec(node);
  switch (why_not(node)) {
    case Refusal::kLabels:
      for (const auto& [key, value] : request_.labels) {
        const auto label = spec.labels.find(key);
        if (label == spec.labels.end() || label->second != value)
          return fmt::format("{}={}", key, value);
      }
      return {};
    case Refusal::kTaint:
      for (const std::string& taint : spec.taints) {
        if (!contains(request_.tolerations, taint)) return taint;
      }
      return {};
    default:
      return {};
  }
}

std::uint16_t Eligible::devices(NodeId node) const {
  const NodeSpec& spec = cluster_.spec(node);
  const auto all = static_cast<std::uint16_t>((1U << spec.devices.size()) - 1);
  if (request_.devices.empty()) return all;
  std::uint16_t found = 0;
  for (std::size_t i = 0; i < spec.devices.size(); ++i) {
    const bool pinned = std::ranges::any_of(
        request_.devices, [&](const std::string& pin) { return names_device(pin, spec, i); });
    if (pinned) found |= static_cast<std::uint16_t>(1U << i);
  }
  return found;
}

void Eligible::place(NodeId node) {
  if (request_.spread) ++members_in_[domain_of(request_.spread->domain, node)];
}

void Eligible::restrict_to(Closeness level, std::optional<std::uint32_t> domain) {
  level_ = level;
  domain_ = domain;
}

}  // namespace divvy::place
