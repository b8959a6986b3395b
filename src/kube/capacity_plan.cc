#include "kube/capacity_plan.h"

#include <algorithm>
#include <boost/json.hpp>
#include <map>
#include <set>
#include <tuple>

#include "kube/accepted_condition.h"
#include "kube/json_view.h"
#include "kube/quantity.h"

namespace divvy::kube {
namespace {

namespace json = boost::json;

// Of one node that placement knows how to deal with.
constexpr std::size_t kMostGpusOfANode = 16;
constexpr std::size_t kMostKinds = 32;
constexpr std::size_t kMostPodsShown = 10;
constexpr std::uint32_t kMostOfAKind = 1000;
// A node has as much for pods that Divvy's share of it never runs out, unless somebody says less.
constexpr std::uint64_t kPlentyOfCpus = 1'000'000;

constexpr const char* kInstanceType = "node.kubernetes.io/instance-type";
constexpr const char* kHostname = "kubernetes.io/hostname";

std::string gpus_of(std::uint64_t thousandths) {
  std::string text =
      fmt::format("{}.{:03}", thousandths / Share::kWhole, thousandths % Share::kWhole);
  text.erase(text.find_last_not_of('0') + 1);
  if (text.ends_with('.')) text.pop_back();
  return text;
}

Status read_kind(const json::object& from, jobs::NodeKind& kind) {
  auto& node = kind.node;
  node.name = text_at(from, {"name"});
  const std::uint64_t gpus = number_at(from, {"gpus"}).value_or(0);
  if (gpus == 0 || gpus > kMostGpusOfANode) {
    return err(ErrorCode::kOutOfRange, "gpus: write 1 to {}", kMostGpusOfANode);
  }
  const json::value* const memory = from.if_contains("memory");
  if (memory == nullptr) {
    return err(ErrorCode::kInvalidArgument, "memory: of one GPU, like 80Gi, is missing");
  }
  DIVVY_TRY(bytes, with_context(whole_quantity(*memory), "memory"));
  node.devices.resize(gpus);
  for (auto& device : node.devices) {
    device.model = text_at(from, {"model"});
    device.memory = Bytes(bytes);
    // GPUs that hang together are what such nodes are bought for.
    device.nvlink_island = 0;
    device.pcie_switch = 0;
    device.numa_node = 0;
  }
  node.cpu_milli = kPlentyOfCpus;
  node.ram = gib(1'000'000);
  for (const auto& label : object_at(from, {"labels"})) {
    if (label.value().is_string()) node.labels.emplace(label.key(), label.value().get_string());
  }
  for (const json::value& one : array_at(from, {"taints"})) {
    if (!one.is_object()) continue;
    node.taints.push_back(to_string(Taint{std::string(text_at(one.get_object(), {"key"})),
                                          std::string(text_at(one.get_object(), {"value"})),
                                          std::string(text_at(one.get_object(), {"effect"}))}));
  }
  kind.most = static_cast<std::uint32_t>(
      std::min<std::uint64_t>(number_at(from, {"most"}).value_or(kMostOfAKind), kMostOfAKind));
  return jobs::check(kind);
}

Status read_kinds(const json::object& spec, CapacityPlanObject& plan) {
  for (const json::value& one : array_at(spec, {"nodeKinds"})) {
    if (!one.is_object()) continue;
    if (plan.kinds.size() == kMostKinds) {
      return err(ErrorCode::kOutOfRange, "there are more than {}", kMostKinds);
    }
    jobs::NodeKind kind;
    DIVVY_RETURN_IF_ERROR(with_context(read_kind(one.get_object(), kind),
                                       fmt::format("nodeKinds[{}]", plan.kinds.size())));
    plan.kinds.push_back(std::move(kind));
  }
  return {};
}

json::array names(const std::vector<std::string>& all) {
  json::array shown;
  for (std::size_t i = 0; i < std::min(all.size(), kMostPodsShown); ++i) {
    shown.emplace_back(all[i]);
  }
  return shown;
}

json::object room_document(const jobs::FreeRoom& room) {
  return {{"gpus", gpus_of(room.share)},
          {"stranded", gpus_of(room.stranded)},
          {"largestGpus", room.largest_gpus},
          {"largestPart", gpus_of(room.largest_part)}};
}

json::object moves_document(const CapacityReport& report) {
  json::object document{{"mode", to_string(report.mode)}};
  if (!report.moves) return document;
  document["for"] = report.moves->pod;
  document["node"] = report.moves->node;
  document["underWay"] = report.moving;
  json::array steps;
  for (const PlannedMoves::Step& step : report.moves->moves) {
    steps.push_back(json::object{{"pod", step.pod}, {"from", step.from}, {"to", step.to}});
  }
  document["steps"] = std::move(steps);
  document["before"] = room_document(report.moves->before);
  document["after"] = room_document(report.moves->after);
  return document;
}

}  // namespace

Result<CapacityPlanObject> read_capacity_plan(const json::object& document) {
  DIVVY_TRY(object, read_object(document));
  CapacityPlanObject plan{.object = std::move(object)};
  plan.generation = number_at(document, {"metadata", "generation"}).value_or(0);
  plan.status = object_at(document, {"status"});
  const Status read = with_context(read_kinds(object_at(document, {"spec"}), plan), "spec");
  if (!read) {
    plan.problem = read.error().message;
    plan.kinds.clear();
  }
  return plan;
}

std::vector<jobs::NodeKind> kinds_of(const jobs::Fleet& fleet) {
  std::vector<jobs::NodeKind> kinds;
  std::set<std::tuple<std::vector<std::pair<std::string, std::uint64_t>>, std::vector<std::string>,
                      std::string>>
      known;
  for (const jobs::FleetNode& node : fleet.nodes) {
    if (node.lost || node.gpus.empty() || kinds.size() == kMostKinds) continue;
    std::vector<std::pair<std::string, std::uint64_t>> gpus;
    gpus.reserve(node.gpus.size());
    for (const jobs::FleetGpu& gpu : node.gpus) {
      gpus.emplace_back(gpu.device.model, gpu.device.memory.count());
    }
    const auto type = node.labels.find(kInstanceType);
    const std::string type_name = type == node.labels.end() ? std::string() : type->second;
    if (!known.emplace(std::move(gpus), node.taints, type_name).second) continue;
    jobs::NodeKind kind;
    kind.most = kMostOfAKind;
    auto& like = kind.node;
    like.name = type_name.empty() ? node.name : type_name;
    like.cpu_milli = node.cpu_milli;
    like.ram = node.ram;
    like.labels = node.labels;
    like.labels.erase(kHostname);
    like.taints = node.taints;
    like.devices.reserve(node.gpus.size());
    for (const jobs::FleetGpu& gpu : node.gpus) like.devices.push_back(gpu.device);
    kinds.push_back(std::move(kind));
  }
  return kinds;
}

json::object capacity_status(const CapacityPlanObject& plan, const CapacityReport& report,
                             WallTime now) {
  json::array wanted;
  std::uint32_t all = 0;
  for (const CapacityReport::Wanted& one : report.wanted) {
    const auto& node = one.kind.node;
    all += one.nodes;
    wanted.push_back(
        json::object{{"kind", node.name},
                     {"nodes", one.nodes},
                     {"gpusPerNode", node.devices.size()},
                     {"model", node.devices.empty() ? std::string() : node.devices.front().model},
                     {"pods", one.pods.size()},
                     {"for", names(one.pods)}});
  }
  return {{"observedGeneration", plan.generation},
          {"free", room_document(report.room)},
          {"moves", moves_document(report)},
          {"nodesWanted", all},
          {"wanted", std::move(wanted)},
          {"notHelped",
           json::object{{"pods", report.not_helped.size()}, {"for", names(report.not_helped)}}},
          {"conditions",
           accepted_condition(
               plan.status, plan.problem.empty(), plan.problem.empty() ? "Holds" : "Refused",
               plan.problem.empty() ? "its kinds of nodes hold" : plan.problem, now)}};
}

}  // namespace divvy::kube
