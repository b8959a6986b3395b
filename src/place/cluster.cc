#include "place/cluster.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "base/check.h"
#include "base/text.h"

namespace divvy::place {
namespace {

constexpr std::size_t kLogSize = 1U << 16;
constexpr std::uint8_t kUnknown = 255;

// Whatever numbers a node's own topology uses, from 0 on.
std::uint8_t group_number(std::optional<std::uint32_t> value, std::vector<std::uint32_t>& seen) {
  if (!value) return kUnknown;
  const auto found = std::ranges::find(seen, *value);
  if (found != seen.end()) return static_cast<std::uint8_t>(found - seen.begin());
  seen.push_back(*value);
  return static_cast<std::uint8_t>(seen.size() - 1);
}

std::size_t kind_of(const Spot& spot) {
  if (spot.whole == 0) return spot.part_device < 0 ? 0 : 1;
  return static_cast<std::size_t>(std::popcount(spot.whole)) + (spot.part_device < 0 ? 1 : 2);
}

std::uint32_t number_of(std::unordered_map<std::string, std::uint32_t>& names,
                        const std::string& name) {
  return names.try_emplace(name, static_cast<std::uint32_t>(names.size())).first->second;
}

}  // namespace

Cluster::Cluster() : log_(kLogSize) {}

Result<NodeId> Cluster::add(NodeSpec spec) {
  DIVVY_RETURN_IF_ERROR(check(spec));
  const auto id = static_cast<std::uint32_t>(specs_.size());
  if (names_.contains(spec.name)) {
    return err(ErrorCode::kAlreadyExists, "there is a node {} already",
               escape_for_terminal(spec.name));
  }
  NodeShape shape;
  shape.cpu_milli = static_cast<std::int64_t>(spec.cpu_milli);
  shape.ram = static_cast<std::int64_t>(spec.ram.count());
  shape.devices = static_cast<std::uint8_t>(spec.devices.size());
  std::vector<std::uint32_t> islands;
  std::vector<std::uint32_t> switches;
  std::vector<std::uint32_t> numas;
  std::vector<model::DeviceGroups> groups;
  for (std::size_t i = 0; i < spec.devices.size(); ++i) {
    const DeviceSpec& device = spec.devices[i];
    auto model = std::ranges::find(models_, device.model);
    if (model == models_.end()) {
      if (models_.size() == kMaxModels) {
        return err(ErrorCode::kOutOfRange, "there are more than {} different GPU models",
                   kMaxModels);
      }
      models_.push_back(device.model);
      model = models_.end() - 1;
    }
    shape.model[i] = static_cast<ModelId>(model - models_.begin());
    shape.memory[i] = device.memory.count();
    shape.models |= ModelSet{1} << shape.model[i];
    shape.nvlink[i] = group_number(device.nvlink_island, islands);
    shape.pcie[i] = group_number(device.pcie_switch, switches);
    shape.numa[i] = group_number(device.numa_node, numas);
    groups.push_back({device.nvlink_island, device.pcie_switch, device.numa_node});
  }
  shape.uniform = std::has_single_bit(shape.models) &&
                  std::all_of(shape.memory.begin(), shape.memory.begin() + shape.devices,
                              [&shape](std::uint64_t memory) { return memory == shape.memory[0]; });
  shape.links = model::DeviceLinks(groups);
  auto known = std::ranges::find(shapes_, shape);
  if (known == shapes_.end()) {
    DIVVY_CHECK(shapes_.size() < 65'535, "too many different nodes");
    shapes_.push_back(shape);
    known = shapes_.end() - 1;
  }
  NodeState state;
  state.shape = static_cast<ShapeId>(known - shapes_.begin());
  state.cpu_free = shape.cpu_milli;
  state.members_left = spec.max_members;
  state.ram_free = shape.ram;
  state.usable = static_cast<std::uint16_t>((1U << shape.devices) - 1);
  for (std::size_t i = 0; i < shape.devices; ++i) {
    state.share_free[i] = Share::kWhole;
    state.memory_free[i] = shape.memory[i];
  }
  any_taint_ = any_taint_ || !spec.taints.empty();
  names_.emplace(spec.name, id);
  racks_of_.push_back(number_of(rack_names_, spec.rack));
  zones_of_.push_back(number_of(zone_names_, spec.zone));
  total_share_ += std::uint64_t{shape.devices} * Share::kWhole;
  cordons_.emplace_back();
  unusable_.emplace_back(shape.devices);
  on_.emplace_back();
  kind_counts_.emplace_back();
  last_logged_.push_back(0);
  specs_.push_back(std::move(spec));
  states_.push_back(state);
  refresh(NodeId(id));
  touch(NodeId(id));
  return NodeId(id);
}

std::optional<NodeId> Cluster::find(std::string_view name) const {
  const auto found = names_.find(std::string(name));
  if (found == names_.end()) return std::nullopt;
  return NodeId(found->second);
}

void Cluster::cordon(NodeId node, std::string reason) {
  states_[node.value()].open = reason.empty();
  cordons_[node.value()] = std::move(reason);
  touch(node);
}

void Cluster::set_unusable(NodeId node, std::size_t device, std::string reason) {
  NodeState& state = states_[node.value()];
  DIVVY_CHECK(device < shape(node).devices, "node {} has no GPU {}", spec(node).name, device);
  const auto bit = static_cast<std::uint16_t>(1U << device);
  state.usable = static_cast<std::uint16_t>(reason.empty() ? state.usable | bit
                                                           : state.usable & ~unsigned{bit});
  unusable_[node.value()][device] = std::move(reason);
  refresh(node);
  touch(node);
}

const std::string& Cluster::cordon_reason(NodeId node) const { return cordons_[node.value()]; }

const std::string& Cluster::unusable_reason(NodeId node, std::size_t device) const {
  return unusable_[node.value()][device];
}

void Cluster::exclude(std::string tenant, NodeId node) {
  auto& nodes = exclusions_[std::move(tenant)];
  if (std::ranges::find(nodes, node.value()) == nodes.end()) nodes.push_back(node.value());
}

bool Cluster::excluded(const std::string& tenant, NodeId node) const {
  const auto found = exclusions_.find(tenant);
  return found != exclusions_.end() &&
         std::ranges::find(found->second, node.value()) != found->second.end();
}

// --- Holdings ---

bool Cluster::fits(const Spot& spot) const {
  if (spot.node.value() >= size()) return false;
  const NodeState& node = state(spot.node);
  const NodeShape& shape = this->shape(spot.node);
  if (spot.cpu_milli < 0 || spot.ram < 0 || node.cpu_free < spot.cpu_milli ||
      node.ram_free < spot.ram || node.members_left == 0) {
    return false;
  }
  if ((spot.whole & node.whole) != spot.whole) return false;
  if (spot.part_device < 0) return spot.part == 0 && spot.part_memory == 0;
  const auto device = static_cast<std::size_t>(spot.part_device);
  return device < shape.devices && (node.usable >> device & 1) != 0 &&
         (spot.whole >> device & 1) == 0 && node.share_free[device] >= spot.part &&
         node.memory_free[device] >= spot.part_memory;
}

HoldingId Cluster::take(const Spot& spot, std::uint64_t job, std::int32_t priority,
                        bool preemptible) {
  DIVVY_CHECK(fits(spot), "a spot on node {} was taken that does not fit", spot.node);
  HoldingId id;
  if (free_holdings_.empty()) {
    id = HoldingId(static_cast<std::uint32_t>(holdings_.size()));
    holdings_.emplace_back();
  } else {
    id = HoldingId(free_holdings_.back());
    free_holdings_.pop_back();
  }
  holdings_[id.value()] = {spot, job, priority, preemptible, true};
  put(id);
  if (marks_ != 0) journal_.push_back({id, true, {}, 0});
  return id;
}

void Cluster::release(HoldingId id) {
  DIVVY_CHECK(id.value() < holdings_.size() && holdings_[id.value()].live,
              "holding {} is released that nobody has", id);
  const Holding before = holdings_[id.value()];
  const std::size_t place = unput(id);
  free_holdings_.push_back(id.value());
  if (marks_ != 0) journal_.push_back({id, false, before, place});
}

void Cluster::put(HoldingId id) {
  const Holding& holding = holdings_[id.value()];
  apply(holding.spot, 1);
  on_[holding.spot.node.value()].push_back(id);
  ++live_;
}

std::size_t Cluster::unput(HoldingId id) {
  Holding& holding = holdings_[id.value()];
  __builtin_prefetch(&states_[holding.spot.node.value()]);
  auto& on = on_[holding.spot.node.value()];
  const auto place = std::ranges::find(on, id) - on.begin();
  on.erase(on.begin() + place);
  apply(holding.spot, -1);
  holding.live = false;
  --live_;
  return static_cast<std::size_t>(place);
}

void Cluster::apply(const Spot& spot, int sign) {
  NodeState& state = states_[spot.node.value()];
  const NodeShape& shape = shapes_[state.shape];
  state.cpu_free -= sign * spot.cpu_milli;
  state.ram_free -= sign * spot.ram;
  state.members += static_cast<std::uint32_t>(sign);
  state.members_left -= static_cast<std::uint32_t>(sign);
  for (unsigned left = spot.whole; left != 0; left &= left - 1) {
    const auto device = static_cast<std::size_t>(std::countr_zero(left));
    state.share_free[device] = sign > 0 ? 0 : Share::kWhole;
    state.memory_free[device] = sign > 0 ? 0 : shape.memory[device];
    refresh_device(state, shape, device);
  }
  if (spot.part_device >= 0) {
    const auto device = static_cast<std::size_t>(spot.part_device);
    state.share_free[device] =
        static_cast<std::uint16_t>(state.share_free[device] - sign * spot.part);
    state.memory_free[device] = sign > 0 ? state.memory_free[device] - spot.part_memory
                                         : state.memory_free[device] + spot.part_memory;
    refresh_device(state, shape, device);
  }
  const std::size_t kind = std::min(kind_of(spot), kMaxDevices + 1);
  std::uint32_t& count = kind_counts_[spot.node.value()][kind];
  count += static_cast<std::uint32_t>(sign);
  state.kinds = count == 0 ? state.kinds & ~(1U << kind) : state.kinds | 1U << kind;
  held_share_ += static_cast<std::uint64_t>(sign) * spot.share();
  state.most_free = *std::max_element(state.free.begin(), state.free.begin() + shape.devices);
  touch(spot.node);
}

void Cluster::refresh_device(NodeState& state, const NodeShape& shape, std::size_t device) {
  // To the nearest thousandth, so that a part that took the same part of the memory leaves the same
  // part of both. Shifted, so that nothing overflows.
  const int shift = std::max(0, static_cast<int>(std::bit_width(shape.memory[device])) - 50);
  const std::uint64_t all = shape.memory[device] >> shift;
  std::uint64_t free = ((state.memory_free[device] >> shift) * Share::kWhole + all / 2) / all;
  free = std::min<std::uint64_t>(free, state.share_free[device]);
  const auto bit = static_cast<std::uint16_t>(1U << device);
  if ((state.usable & bit) == 0) free = 0;
  state.idle += static_cast<std::uint32_t>(free) - state.free[device];
  state.free[device] = static_cast<std::uint16_t>(free);
  const bool was_whole = (state.whole & bit) != 0;
  const bool is_whole = free == Share::kWhole;
  if (was_whole == is_whole) return;
  state.whole ^= bit;
  state.whole_count = static_cast<std::uint16_t>(state.whole_count + (is_whole ? 1 : -1));
}

void Cluster::refresh(NodeId node) {
  NodeState& state = states_[node.value()];
  const NodeShape& shape = shapes_[state.shape];
  for (std::size_t i = 0; i < shape.devices; ++i) refresh_device(state, shape, i);
  state.most_free = *std::ranges::max_element(state.free);
}

void Cluster::touch(NodeId node) {
  last_logged_[node.value()] = log_end_;
  log_[log_end_ & (kLogSize - 1)] = node.value();
  ++log_end_;
  if (log_end_ - log_begin_ > kLogSize) log_begin_ = log_end_ - kLogSize;
}

// --- Asks ---

Ask Cluster::ask_of(const Request& request) const {
  Ask ask;
  const Member& member = request.member;
  ask.whole = member.whole_gpus;
  ask.part = member.part.thousandths();
  const std::uint64_t memory = member.memory.value_or(Bytes(0)).count();
  // By memory alone: a part of one GPU that is as large as the memory is.
  if (ask.part != 0 || ask.whole == 0) ask.part_memory = memory;
  if (ask.whole != 0) ask.whole_memory = memory;
  ask.cpu_milli = static_cast<std::int64_t>(member.cpu_milli);
  ask.ram = static_cast<std::int64_t>(member.ram.count());
  ask.gpus_near =
      ask.whole + (ask.wants_part() ? 1 : 0) > 1 ? request.gpus.closeness : Closeness::kAnywhere;
  ask.near_required = ask.gpus_near != Closeness::kAnywhere && request.gpus.required;
  if (!request.allowed_models.empty() || !request.denied_models.empty()) {
    const auto named = [](const std::string& model, const std::vector<std::string>& pieces) {
      return std::ranges::any_of(pieces, [&](const std::string& piece) {
        return to_lower(model).find(to_lower(piece)) != std::string::npos;
      });
    };
    ask.models = 0;
    for (std::size_t i = 0; i < models_.size(); ++i) {
      const bool allowed =
          request.allowed_models.empty() || named(models_[i], request.allowed_models);
      if (allowed && !named(models_[i], request.denied_models)) ask.models |= ModelSet{1} << i;
    }
  }
  return ask;
}

// --- What if ---

Cluster::Mark Cluster::mark() {
  ++marks_;
  return journal_.size();
}

void Cluster::rollback(Mark mark) {
  DIVVY_CHECK(marks_ != 0 && mark <= journal_.size(), "nothing to roll back to");
  while (journal_.size() > mark) {
    const Step& step = journal_.back();
    if (step.taken) {
      unput(step.holding);
      free_holdings_.push_back(step.holding.value());
    } else {
      DIVVY_CHECK(!free_holdings_.empty() && free_holdings_.back() == step.holding.value(),
                  "holdings were not given back in order");
      free_holdings_.pop_back();
      holdings_[step.holding.value()] = step.before;
      apply(step.before.spot, 1);
      auto& on = on_[step.before.spot.node.value()];
      on.insert(on.begin() + static_cast<std::ptrdiff_t>(step.place), step.holding);
      ++live_;
    }
    journal_.pop_back();
  }
  --marks_;
}

void Cluster::keep(Mark mark) {
  DIVVY_CHECK(marks_ != 0 && mark <= journal_.size(), "nothing to keep");
  --marks_;
  if (marks_ == 0) journal_.clear();
}

}  // namespace divvy::place
