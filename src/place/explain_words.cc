#include "place/explain_words.h"

#include <algorithm>
#include <bit>
#include <set>

#include "base/text.h"

namespace divvy::place {
namespace {

std::string share_words(std::uint32_t thousandths) { return to_string(Share(thousandths)); }

std::string cpu_words(std::int64_t milli) {
  return fmt::format("{:g}", static_cast<double>(milli) / 1000);
}

std::uint32_t gpus_of(const Ask& ask) { return ask.whole + (ask.wants_part() ? 1 : 0); }

std::string models_of(const NodeSpec& spec) {
  std::set<std::string> models;
  for (const DeviceSpec& device : spec.devices) models.insert(escape_for_terminal(device.model));
  return list_words({models.begin(), models.end()});
}

bool of_wanted_model(const NodeTrial& node, const Ask& ask, std::size_t device) {
  return (ask.models >> node.shape().model[device] & 1) != 0;
}

std::uint32_t wanted_gpus(const NodeTrial& node, const Ask& ask) {
  std::uint32_t count = 0;
  for (std::size_t i = 0; i < node.shape().devices; ++i) {
    if ((node.devices() >> i & 1) != 0 && of_wanted_model(node, ask, i)) ++count;
  }
  return count;
}

// The GPU that comes closest to having the part.
std::optional<std::size_t> closest(const NodeTrial& node, const Ask& ask, bool by_memory) {
  std::optional<std::size_t> best;
  const NodeState& state = node.state();
  for (std::size_t i = 0; i < node.shape().devices; ++i) {
    if ((state.usable >> i & 1) == 0 || !of_wanted_model(node, ask, i)) continue;
    // A GPU with enough compute is close only by its memory.
    const PartNeed need = part_need(ask, node.shape().memory[i]);
    if (by_memory && state.share_free[i] < need.share) continue;
    const bool better = !best || (by_memory ? state.memory_free[i] > state.memory_free[*best]
                                            : state.share_free[i] > state.share_free[*best]);
    if (better) best = i;
  }
  return best;
}

std::string unhealthy_words(const Cluster& cluster, const Ask& ask, const NodeTrial& node) {
  std::vector<std::string> broken;
  std::uint32_t healthy = 0;
  for (std::size_t i = 0; i < node.shape().devices; ++i) {
    if ((node.devices() >> i & 1) == 0 || !of_wanted_model(node, ask, i)) continue;
    const std::string& reason = cluster.unusable_reason(node.node(), i);
    if (reason.empty()) {
      ++healthy;
    } else {
      broken.push_back(fmt::format("gpu{}: {}", i, escape_for_terminal(reason)));
    }
  }
  return fmt::format("{} healthy of the {} asked; {}", count_words(healthy, "GPU"), gpus_of(ask),
                     list_words(broken));
}

// How many whole GPUs the best group of close ones has.
std::uint32_t largest_group(const NodeTrial& node, const Ask& ask) {
  std::uint32_t most = 0;
  Ask fewer = ask;
  for (fewer.whole = 1; fewer.whole <= ask.whole; ++fewer.whole) {
    fewer.part = 0;
    fewer.part_memory = 0;
    fewer.cpu_milli = 0;
    fewer.ram = 0;
    if (devices_to_use(node.view(), fewer) != 0) most = fewer.whole;
  }
  return most;
}

}  // namespace

std::string size_words(std::uint64_t bytes) {
  std::string text = humanize(Bytes(bytes));
  if (const auto zero = text.find(".0 "); zero != std::string::npos) text.erase(zero, 2);
  return text;
}

std::string count_words(std::uint64_t count, std::string_view thing) {
  return fmt::format("{} {}{}", count, thing, count == 1 ? "" : "s");
}

std::string list_words(const std::vector<std::string>& items) {
  std::string text;
  for (std::size_t i = 0; i < items.size(); ++i) {
    if (i != 0) text += i + 1 == items.size() ? " and " : ", ";
    text += items[i];
  }
  return text;
}

std::string_view group_words(Closeness closeness) {
  switch (closeness) {
    case Closeness::kNvlink:
      return "one NVLink island";
    case Closeness::kPcie:
      return "one PCIe switch";
    case Closeness::kNuma:
      return "one NUMA node";
    case Closeness::kNode:
      return "one node";
    case Closeness::kRack:
      return "one rack";
    case Closeness::kZone:
      return "one zone";
    case Closeness::kAnywhere:
      break;
  }
  return "the cluster";
}

std::string refusal_words(const Cluster& cluster, const Request& request, const Ask& ask,
                          const Eligible& eligible, const NodeTrial& node, Refusal refusal) {
  const NodeSpec& spec = cluster.spec(node.node());
  const NodeState& state = node.state();
  switch (refusal) {
    case Refusal::kNone:
      return "a member fits";
    case Refusal::kClosed:
      return fmt::format("cordoned: {}", escape_for_terminal(cluster.cordon_reason(node.node())));
    case Refusal::kNotNamed:
      return request.devices.empty() ? "the request names other nodes"
                                     : "the request names other GPUs";
    case Refusal::kExcluded:
      return std::ranges::find(request.excluded_nodes, spec.name) != request.excluded_nodes.end()
                 ? "the request excludes it"
                 : fmt::format("tenant {} may not use it", escape_for_terminal(request.tenant));
    case Refusal::kLabels:
      return fmt::format("lacks the label {}", escape_for_terminal(eligible.what(node.node())));
    case Refusal::kTaint:
      return fmt::format("has the taint {}, which the request does not tolerate",
                         escape_for_terminal(eligible.what(node.node())));
    case Refusal::kModel:
      return fmt::format("has only {}, which the request does not allow", models_of(spec));
    case Refusal::kCpu:
      return fmt::format("{} CPUs free of the {} asked", cpu_words(state.cpu_free),
                         cpu_words(ask.cpu_milli));
    case Refusal::kRam:
      return fmt::format("{} RAM free of the {} asked",
                         size_words(static_cast<std::uint64_t>(state.ram_free)),
                         size_words(static_cast<std::uint64_t>(ask.ram)));
    case Refusal::kMembers:
      return fmt::format("runs {} and takes no more", count_words(spec.max_members, "member"));
    case Refusal::kUnhealthy:
      return unhealthy_words(cluster, ask, node);
    case Refusal::kTooFewGpus:
      return fmt::format("has {} of the {} asked", count_words(wanted_gpus(node, ask), "GPU"),
                         gpus_of(ask));
    case Refusal::kGpuTooSmall: {
      const auto& memory = node.shape().memory;
      const std::uint64_t largest =
          *std::max_element(memory.begin(), memory.begin() + node.shape().devices);
      return fmt::format("its GPUs have at most {} of the {} asked", size_words(largest),
                         size_words(std::max(ask.part_memory, ask.whole_memory)));
    }
    case Refusal::kWholeGpus:
      return fmt::format(
          "{} wholly free of the {} asked",
          count_words(static_cast<std::uint64_t>(std::popcount(whole_devices(node.view(), ask))),
                      "GPU"),
          share_words(ask.share()));
    case Refusal::kShare:
    case Refusal::kGpuMemory: {
      const bool by_memory = refusal == Refusal::kGpuMemory;
      const auto device = closest(node, ask, by_memory);
      if (!device) return "no GPU is free";
      const PartNeed need = part_need(ask, node.shape().memory[*device]);
      return by_memory
                 ? fmt::format("gpu{} has {} free of the {} asked", *device,
                               size_words(state.memory_free[*device]), size_words(need.memory))
                 : fmt::format("gpu{} has {} free of the {} asked", *device,
                               share_words(state.share_free[*device]),
                               share_words(std::min(need.share, Share::kWhole)));
    }
    case Refusal::kNearness:
      return fmt::format("has {} wholly free in {}, of the {} asked",
                         count_words(largest_group(node, ask), "GPU"), group_words(ask.gpus_near),
                         share_words(ask.share()));
    case Refusal::kSpread:
      return "has as many members of this request as may be together";
  }
  return {};
}

std::vector<std::string> device_words(const Cluster& cluster, const Ask& ask,
                                      const NodeTrial& node) {
  std::vector<std::string> lines;
  const NodeState& state = node.state();
  const NodeShape& shape = node.shape();
  for (std::size_t i = 0; i < shape.devices; ++i) {
    const std::string& broken = cluster.unusable_reason(node.node(), i);
    std::string text;
    if ((node.devices() >> i & 1) == 0) {
      text = "not named by the request";
    } else if (!of_wanted_model(node, ask, i)) {
      text = fmt::format("{} is not allowed",
                         escape_for_terminal(cluster.spec(node.node()).devices[i].model));
    } else if (!broken.empty()) {
      text = fmt::format("unhealthy: {}", escape_for_terminal(broken));
    } else if ((state.whole >> i & 1) != 0) {
      text = fmt::format("wholly free, {}", size_words(shape.memory[i]));
    } else {
      text = fmt::format("{} and {} free", share_words(state.share_free[i]),
                         size_words(state.memory_free[i]));
    }
    lines.push_back(fmt::format("gpu{}: {}", i, text));
  }
  return lines;
}

std::string shortfall_words(const Cluster& cluster, const Shortfall& shortfall) {
  const std::string node = escape_for_terminal(cluster.spec(shortfall.node).name);
  std::vector<std::string> pieces;
  std::vector<std::string> wholes;
  for (const DeviceShortfall& device : shortfall.devices) {
    if (device.whole) {
      wholes.push_back(fmt::format("gpu{}", device.device));
    } else if (device.share != 0 && device.memory != 0) {
      pieces.push_back(fmt::format("{} and {} are freed on gpu{}", share_words(device.share),
                                   size_words(device.memory), device.device));
    } else if (device.share != 0) {
      pieces.push_back(
          fmt::format("{} of gpu{} is freed", share_words(device.share), device.device));
    } else {
      pieces.push_back(
          fmt::format("{} are freed on gpu{}", size_words(device.memory), device.device));
    }
  }
  if (!wholes.empty()) {
    pieces.insert(
        pieces.begin(),
        fmt::format("{} more GPU{} ({})", wholes.size(),
                    wholes.size() == 1 ? " becomes whole" : "s become whole", list_words(wholes)));
  }
  if (shortfall.cpu_milli != 0) {
    pieces.push_back(fmt::format("{} CPUs are freed", cpu_words(shortfall.cpu_milli)));
  }
  if (shortfall.ram != 0) {
    pieces.push_back(
        fmt::format("{} RAM are freed", size_words(static_cast<std::uint64_t>(shortfall.ram))));
  }
  if (shortfall.member) pieces.emplace_back("a member leaves");
  const bool names_gpu = pieces.size() == 1 && wholes.empty() && !shortfall.devices.empty();
  return fmt::format("{} {} {}", list_words(pieces), names_gpu ? "of" : "on", node);
}

std::string never_words(const Request& request, const Ask& ask, Refusal refusal) {
  switch (refusal) {
    case Refusal::kNotNamed:
      return fmt::format("there is no {} of the name{} that the request gives",
                         request.devices.empty() ? "node" : "GPU",
                         request.nodes.size() + request.devices.size() == 1 ? "" : "s");
    case Refusal::kExcluded:
      return "every node is excluded";
    case Refusal::kLabels: {
      std::vector<std::string> labels;
      labels.reserve(request.labels.size());
      for (const auto& [key, value] : request.labels) {
        labels.push_back(escape_for_terminal(fmt::format("{}={}", key, value)));
      }
      return fmt::format("no node has the label{} {}", labels.size() == 1 ? "" : "s",
                         list_words(labels));
    }
    case Refusal::kTaint:
      return "every node has a taint that the request does not tolerate";
    case Refusal::kModel: {
      std::vector<std::string> models;
      models.reserve(request.allowed_models.size());
      for (const std::string& model : request.allowed_models) {
        models.push_back(escape_for_terminal(model));
      }
      return models.empty() ? "no node has a GPU of a model that is not denied"
                            : fmt::format("no node has a GPU of model {}", list_words(models));
    }
    case Refusal::kCpu:
      return fmt::format("no node has {} CPUs beside the GPUs", cpu_words(ask.cpu_milli));
    case Refusal::kRam:
      return fmt::format("no node has {} RAM beside the GPUs",
                         size_words(static_cast<std::uint64_t>(ask.ram)));
    case Refusal::kTooFewGpus:
    case Refusal::kUnhealthy:
    case Refusal::kWholeGpus:
      return fmt::format(
          "no node has {}{}", count_words(gpus_of(ask), "GPU"),
          request.devices.empty() && request.allowed_models.empty() && request.denied_models.empty()
              ? ""
              : " of those that the request allows");
    case Refusal::kGpuTooSmall:
    case Refusal::kShare:
    case Refusal::kGpuMemory:
      return fmt::format("no node has GPUs with {}",
                         size_words(std::max(ask.part_memory, ask.whole_memory)));
    case Refusal::kNearness:
      return fmt::format("no node has {} in {}", count_words(gpus_of(ask), "GPU"),
                         group_words(ask.gpus_near));
    case Refusal::kNone:
    case Refusal::kClosed:
    case Refusal::kMembers:
    case Refusal::kSpread:
      break;
  }
  return "there are no nodes";
}

}  // namespace divvy::place
