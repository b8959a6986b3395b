#include "cli/gpu_document.h"

#include <boost/json.hpp>
#include <optional>

#include "cli/output.h"

namespace divvy::cli {
namespace {

namespace json = boost::json;
using model::Gpu;
using model::LinkKind;
using model::Node;

json::value text(std::string_view value) { return json::value(json::string(to_valid_utf8(value))); }

json::value text_if_known(const std::optional<std::string>& value) {
  return value ? text(*value) : nullptr;
}

json::value number(const std::optional<std::uint32_t>& value) {
  return value ? json::value(*value) : nullptr;
}

json::value bytes(const std::optional<Bytes>& value) {
  return value ? json::value(value->count()) : nullptr;
}

// A value of the vocabulary, as the word that its to_string gives.
template <typename T>
json::value word(const std::optional<T>& value) {
  return value ? text(to_string(*value)) : nullptr;
}

json::value uuid(const Gpu& gpu) { return gpu.uuid ? text(gpu.uuid->str()) : nullptr; }

json::object head(const Node& node, std::string_view kind) {
  return {
      {"apiVersion", "divvy/v1"},
      {"kind", kind},
      {"node",
       {{"hostname", text(node.hostname())},
        {"simulated", node.simulated()},
        {"driverVersion", text_if_known(node.driver_version())},
        {"cudaVersion", word(node.cuda_version())}}},
  };
}

json::array nvlink_peers(const Node& node, std::size_t place) {
  json::array peers;
  for (std::size_t other = 0; other < node.gpus().size(); ++other) {
    const model::Link link = node.topology().link(place, other);
    if (link.kind != LinkKind::kNvlink) continue;
    peers.push_back({{"index", node.gpus()[other].index.value()}, {"links", link.nvlink_count}});
  }
  return peers;
}

json::value cpus(const Node& node, std::size_t place) {
  const std::string& list = node.topology().affinity(place).cpus;
  return list.empty() ? nullptr : text(list);
}

json::array problems(const Gpu& gpu) {
  json::array list;
  for (const model::FieldProblem& problem : gpu.problems) {
    list.push_back({{"field", text(problem.field)}, {"error", text(problem.error)}});
  }
  return list;
}

json::object item(const Node& node, std::size_t place) {
  const Gpu& gpu = node.gpus()[place];
  return {
      {"index", gpu.index.value()},
      {"uuid", uuid(gpu)},
      {"model", text_if_known(gpu.name)},
      {"health",
       {{"state", to_string(gpu.health.state)},
        {"reason", gpu.health.reason.empty() ? nullptr : text(gpu.health.reason)}}},
      {"memory",
       {{"totalBytes", bytes(gpu.memory_total)},
        {"usedBytes", bytes(gpu.memory_used)},
        {"reservedBytes", bytes(gpu.memory_reserved)},
        {"freeBytes", bytes(memory_free(gpu))}}},
      {"utilizationPercent", number(gpu.utilization_percent)},
      {"temperatureCelsius", number(gpu.temperature_c)},
      {"powerMilliwatts", number(gpu.power_mw)},
      {"powerLimitMilliwatts", number(gpu.power_limit_mw)},
      {"driverVersion", text_if_known(gpu.driver_version)},
      {"computeCapability", word(gpu.compute_capability)},
      {"migMode", word(gpu.mig_mode)},
      {"pciAddress", word(gpu.pci)},
      {"minorNumber", number(gpu.minor_number)},
      {"numaNode", number(gpu.numa_node)},
      {"cpuAffinity", cpus(node, place)},
      {"nvlinkPeers", nvlink_peers(node, place)},
      {"problems", problems(gpu)},
  };
}

}  // namespace

std::string gpu_list_document(const Node& node) {
  json::object document = head(node, "GpuList");
  json::array items;
  for (std::size_t i = 0; i < node.gpus().size(); ++i) items.push_back(item(node, i));
  document["items"] = std::move(items);
  return json::serialize(document);
}

std::string gpu_topology_document(const Node& node) {
  json::object document = head(node, "GpuTopology");
  json::array items;
  json::array matrix;
  for (std::size_t i = 0; i < node.gpus().size(); ++i) {
    const Gpu& gpu = node.gpus()[i];
    items.push_back({{"index", gpu.index.value()},
                     {"uuid", uuid(gpu)},
                     {"numaNode", number(gpu.numa_node)},
                     {"cpuAffinity", cpus(node, i)}});
    json::array row;
    for (std::size_t j = 0; j < node.gpus().size(); ++j) {
      const model::Link link = node.topology().link(i, j);
      row.push_back(link.kind == LinkKind::kUnknown ? nullptr : text(to_string(link)));
    }
    matrix.push_back(std::move(row));
  }
  document["items"] = std::move(items);
  document["matrix"] = std::move(matrix);
  return json::serialize(document);
}

}  // namespace divvy::cli
