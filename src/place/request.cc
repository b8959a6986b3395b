#include "place/request.h"

#include <algorithm>
#include <array>

#include "base/text.h"
#include "place/node_spec.h"

namespace divvy::place {

using model::inside_a_node;

Status check(const Request& request) {
  const Member& member = request.member;
  if (member.part >= Share::whole_gpus(1)) {
    return err(ErrorCode::kInvalidArgument,
               "{} is no part of a GPU; whole GPUs are counted in whole_gpus", member.part);
  }
  if (member.whole_gpus > kMaxDevices ||
      (member.whole_gpus == kMaxDevices && member.part != Share(0))) {
    return err(
        ErrorCode::kOutOfRange,
        "one member asks for {} GPUs and a node has at most {}; use a gang of several members",
        member.whole_gpus, kMaxDevices);
  }
  if (member.memory == Bytes(0)) {
    return err(ErrorCode::kInvalidArgument,
               "0 bytes of GPU memory cannot run anything; leave the memory out");
  }
  constexpr auto kMost = static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max() / 4);
  if (member.cpu_milli > kMost || member.ram.count() > kMost ||
      (member.memory && member.memory->count() > kMost)) {
    return err(ErrorCode::kOutOfRange, "the request is larger than any machine");
  }
  if (request.members == 0 || request.members > model::Request::kMaxGangSize) {
    return err(ErrorCode::kOutOfRange, "a gang of {} members is impossible; it has from 1 to {}",
               request.members, model::Request::kMaxGangSize);
  }
  if (request.least_members > request.members) {
    return err(ErrorCode::kInvalidArgument, "at least {} of {} members is impossible",
               request.least_members, request.members);
  }
  if (request.gpus.closeness != Closeness::kAnywhere && !inside_a_node(request.gpus.closeness)) {
    return err(ErrorCode::kInvalidArgument,
               "the GPUs of one member are on one node already; ask for numa, pcie or nvlink");
  }
  if (inside_a_node(request.members_near.closeness)) {
    return err(ErrorCode::kInvalidArgument,
               "members can be near each other by node, rack or zone, not by {}",
               to_string(request.members_near.closeness));
  }
  if (request.spread &&
      (request.spread->most == 0 || request.spread->domain == Closeness::kAnywhere ||
       inside_a_node(request.spread->domain))) {
    return err(ErrorCode::kInvalidArgument,
               "spread takes a node, rack or zone and at least 1 member in each");
  }
  return {};
}

Request request_of(const model::JobSpec& spec) {
  const model::Request& asked = spec.request;
  Request result;
  result.name = spec.name;
  result.member.whole_gpus = asked.whole_gpus();
  result.member.part = asked.fraction();
  result.member.memory = asked.memory();
  result.member.cpu_milli = spec.limits.cpu_milli.value_or(0);
  result.member.ram = spec.limits.ram.value_or(Bytes(0));
  result.members = asked.gang_size();
  result.least_members = spec.least_members;
  result.allowed_models = asked.allowed_models();
  result.denied_models = asked.denied_models();
  result.nodes = spec.where.nodes;
  result.excluded_nodes = spec.where.nodes_denied;
  result.devices = spec.devices;
  result.labels = spec.where.node_labels;
  result.tolerations = spec.where.tolerations;
  result.gpus = spec.where.gpus_near;
  // One GPU is near itself.
  const bool several = asked.gpus_per_member() > 1;
  if (several && asked.topology() == model::TopologyPreference::kSameNuma) {
    result.gpus = {Closeness::kNuma, true};
  } else if (several && asked.topology() == model::TopologyPreference::kNvlink) {
    result.gpus = {Closeness::kNvlink, true};
  }
  result.members_near = spec.where.members_near;
  result.spread = spec.where.spread;
  result.priority = spec.priority;
  result.preemptible = spec.preemptible;
  return result;
}

std::string describe(const Member& member) {
  std::vector<std::string> parts;
  const Share share = Share(member.whole_gpus * Share::kWhole + member.part.thousandths());
  if (share != Share(0)) {
    parts.push_back(fmt::format("{} GPU{}", share, share > Share::whole_gpus(1) ? "s" : ""));
    if (member.memory) parts.back() += fmt::format(" with {}", humanize(*member.memory));
  } else if (member.memory) {
    parts.push_back(fmt::format("{} of GPU memory", humanize(*member.memory)));
  }
  if (member.cpu_milli != 0) {
    parts.push_back(fmt::format("{:g} CPUs", static_cast<double>(member.cpu_milli) / 1000));
  }
  if (member.ram != Bytes(0)) parts.push_back(fmt::format("{} RAM", humanize(member.ram)));
  return parts.empty() ? "no GPU" : fmt::format("{}", fmt::join(parts, ", "));
}

}  // namespace divvy::place
