#include "jobs/fleet_view.h"

#include <algorithm>
#include <bit>
#include <charconv>

#include "base/check.h"
#include "base/text.h"
#include "place/explain.h"
#include "place/fit.h"
#include "place/workload.h"

namespace divvy::jobs {
namespace {

place::NodeSpec spec_of(const FleetNode& node) {
  place::NodeSpec spec;
  spec.name = node.name;
  spec.cpu_milli = node.cpu_milli;
  spec.ram = node.ram;
  spec.rack = node.rack;
  spec.zone = node.zone;
  spec.labels = node.labels;
  spec.taints = node.taints;
  spec.max_members = node.max_members;
  for (const FleetGpu& gpu : node.gpus) {
    spec.devices.push_back(gpu.device);
    spec.devices.back().uuid = gpu.uuid.str();
  }
  return spec;
}

bool is_index(std::string_view text, std::uint32_t wanted) {
  std::uint32_t index = 0;
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), index);
  return code == std::errc() && end == text.data() + text.size() && index == wanted;
}

// As users name GPUs: by index, by UUID or by the beginning of one, by node and index.
bool names(std::string_view text, const FleetNode& node, const FleetGpu& gpu) {
  text = trim(text);
  const std::size_t slash = text.rfind('/');
  if (slash != std::string_view::npos) {
    return text.substr(0, slash) == node.name && is_index(text.substr(slash + 1), gpu.index);
  }
  if (is_index(text, gpu.index)) return true;
  return text.size() > 4 && to_lower(gpu.uuid.str()).starts_with(to_lower(text));
}

}  // namespace

FleetView::FleetView(std::string policy) : policy_(std::move(policy)) {
  const Status made = rebuild({});
  DIVVY_CHECK(made.has_value(), "{}", made.error().message);
}

Status FleetView::rebuild(const Fleet& fleet) {
  auto cluster = std::make_unique<place::Cluster>();
  for (const FleetNode& node : fleet.nodes) DIVVY_RETURN_IF_ERROR(cluster->add(spec_of(node)));
  DIVVY_TRY(policy, place::make_policy(policy_));
  placer_ = std::make_unique<place::Placer>(*cluster, std::move(policy));
  cluster_ = std::move(cluster);
  excluded_.clear();
  fleet_ = fleet;
  for (std::uint32_t i = 0; i < fleet_.nodes.size(); ++i) {
    for (const std::string& user : fleet_.nodes[i].not_for) {
      cluster_->exclude(user, place::NodeId(i));
      excluded_.insert(user);
    }
  }
  empty_ = std::make_unique<place::Cluster>(*cluster_);
  return {};
}

bool FleetView::same_shape(const Fleet& fleet) const {
  return std::ranges::equal(fleet.nodes, fleet_.nodes, [](const FleetNode& a, const FleetNode& b) {
    return a.not_for == b.not_for && spec_of(a) == spec_of(b);
  });
}

Result<bool> FleetView::update(const Fleet& fleet) {
  if (fleet == fleet_) return false;
  const bool anew = !same_shape(fleet);
  if (anew) {
    DIVVY_RETURN_IF_ERROR(rebuild(fleet));
  } else {
    fleet_ = fleet;
  }
  mirror_health();
  return anew;
}

void FleetView::prepare(std::span<const place::Request> requests) {
  place::Workload workload;
  for (const place::Request& request : requests) {
    workload.count(cluster_->ask_of(request), request.members);
  }
  placer_->prepare(std::move(workload));
}

void FleetView::mirror_health() {
  for (std::uint32_t i = 0; i < fleet_.nodes.size(); ++i) {
    const FleetNode& node = fleet_.nodes[i];
    const place::NodeId id(i);
    const std::string closed = !node.lost            ? node.closed
                               : node.closed.empty() ? "lost"
                                                     : "lost: " + node.closed;
    if (cluster_->cordon_reason(id) != closed) cluster_->cordon(id, closed);
    for (std::size_t device = 0; device < node.gpus.size(); ++device) {
      const FleetGpu& gpu = node.gpus[device];
      const std::string& reason = gpu.lost && gpu.resting.empty() ? "it is lost" : gpu.resting;
      if (cluster_->unusable_reason(id, device) != reason) {
        cluster_->set_unusable(id, device, reason);
      }
    }
  }
}

place::HoldingId FleetView::take(const place::Spot& spot, std::uint64_t job, std::int32_t priority,
                                 bool preemptible) {
  // Placement gives nothing of a GPU that rests; what is there already has to be counted all the
  // same.
  const unsigned devices = spot.part_device < 0 ? spot.whole : spot.whole | 1U << spot.part_device;
  std::vector<std::pair<std::size_t, std::string>> resting;
  for (unsigned left = devices; left != 0; left &= left - 1) {
    const auto device = static_cast<std::size_t>(std::countr_zero(left));
    const std::string reason = cluster_->unusable_reason(spot.node, device);
    if (reason.empty()) continue;
    resting.emplace_back(device, reason);
    cluster_->set_unusable(spot.node, device, "");
  }
  const place::NodeState& state = cluster_->state(spot.node);
  place::Spot free = spot;
  free.whole &= state.whole;
  free.cpu_milli = std::clamp<std::int64_t>(state.cpu_free, 0, spot.cpu_milli);
  free.ram = std::clamp<std::int64_t>(state.ram_free, 0, spot.ram);
  if (spot.part_device >= 0) {
    const auto device = static_cast<std::size_t>(spot.part_device);
    free.part = std::min(spot.part, state.share_free[device]);
    free.part_memory = std::min(spot.part_memory, state.memory_free[device]);
  }
  const place::HoldingId holding = cluster_->take(free, job, priority, preemptible);
  for (auto& [device, reason] : resting) {
    cluster_->set_unusable(spot.node, device, std::move(reason));
  }
  return holding;
}

place::Request FleetView::request_of(const model::JobSpec& spec) const {
  place::Request request = place::request_of(spec);
  request.devices.clear();
  for (const std::string& text : spec.devices) {
    bool found = false;
    for (const FleetNode& node : fleet_.nodes) {
      for (const FleetGpu& gpu : node.gpus) {
        if (!names(text, node, gpu)) continue;
        request.devices.push_back(gpu.uuid.str());
        found = true;
      }
    }
    // A GPU that is not there must not turn into "any GPU".
    if (!found) request.devices.push_back(text);
  }
  return request;
}

std::optional<std::string> FleetView::never(const place::Request& request) const {
  if (fleet_.nodes.empty()) return std::nullopt;
  auto policy = place::make_policy("bestfit");
  DIVVY_CHECK(policy.has_value(), "{}", policy.error().message);
  place::Placer placer(*empty_, *std::move(policy));
  if (!placer.plan(request).empty()) return std::nullopt;
  const auto explanation = place::explain(placer, request);
  return explanation.never.empty() ? place::summary(explanation) : explanation.never;
}

std::optional<std::string> FleetView::too_small(const model::Request& request) const {
  if (request.fraction() == Share(0) && !request.memory()) return std::nullopt;
  Bytes largest;
  for (const FleetNode& node : fleet_.nodes) {
    for (const FleetGpu& gpu : node.gpus) largest = std::max(largest, gpu.device.memory);
  }
  const Bytes gets = request.memory().value_or(portion(largest, request.fraction()));
  if (largest == Bytes(0) || gets >= fleet_.smallest_slice) return std::nullopt;
  return fmt::format("{} of GPU memory is too little for any program; ask for at least {}",
                     humanize(gets), humanize(fleet_.smallest_slice));
}

Share FleetView::least_share(const model::Request& request) const {
  if (!request.by_memory()) return request.share();
  // As much of the GPU as of its memory: the least on the largest.
  place::Ask ask;
  ask.part_memory = request.memory()->count();
  std::uint32_t least = Share::kWhole;
  for (const FleetNode& node : fleet_.nodes) {
    for (const FleetGpu& gpu : node.gpus) {
      if (!request.accepts_model(gpu.device.model)) continue;
      least = std::min(least, place::part_need(ask, gpu.device.memory.count()).share);
    }
  }
  return Share(least);
}

Bytes FleetView::least_memory(const model::Request& request) const {
  std::optional<Bytes> smallest;
  for (const FleetNode& node : fleet_.nodes) {
    for (const FleetGpu& gpu : node.gpus) {
      if (!request.accepts_model(gpu.device.model)) continue;
      if (gpu.device.memory < request.memory().value_or(Bytes(0))) continue;
      smallest = smallest ? std::min(*smallest, gpu.device.memory) : gpu.device.memory;
    }
  }
  if (!smallest) return request.memory().value_or(Bytes(0));
  if (request.memory()) return Bytes(request.memory()->count() * request.gpus_per_member());
  return Bytes(smallest->count() * request.whole_gpus()) + portion(*smallest, request.fraction());
}

std::vector<model::JobMember> FleetView::members_at(std::span<const place::Spot> spots,
                                                    const model::JobSpec& spec) const {
  std::vector<model::JobMember> members;
  for (const place::Spot& spot : spots) {
    const FleetNode& node = fleet_.nodes[spot.node.value()];
    model::JobMember member;
    member.rank = static_cast<std::uint32_t>(members.size());
    member.node = node.name;
    const auto grant = [&](std::size_t device, Bytes memory, Share share) {
      auto slice = model::Slice::create(node.gpus[device].uuid, memory, share, spec.request.kind());
      DIVVY_CHECK(slice.has_value(), "{}", slice.error().message);
      member.slices.push_back(*std::move(slice));
    };
    for (unsigned left = spot.whole; left != 0; left &= left - 1) {
      const auto device = static_cast<std::size_t>(std::countr_zero(left));
      const Bytes all = node.gpus[device].device.memory;
      grant(device, spec.request.memory().value_or(all), Share(Share::kWhole));
    }
    if (spot.part_device >= 0) {
      grant(static_cast<std::size_t>(spot.part_device), Bytes(spot.part_memory), Share(spot.part));
    }
    members.push_back(std::move(member));
  }
  return members;
}

std::optional<place::Spot> FleetView::spot_of(const model::JobMember& member,
                                              const model::JobSpec& spec) const {
  const auto node = cluster_->find(member.node);
  if (!node) return std::nullopt;
  place::Spot spot;
  spot.node = *node;
  spot.cpu_milli = static_cast<std::int64_t>(spec.limits.cpu_milli.value_or(0));
  spot.ram = static_cast<std::int64_t>(spec.limits.ram.value_or(Bytes(0)).count());
  const std::vector<FleetGpu>& gpus = fleet_.nodes[node->value()].gpus;
  for (const model::Slice& slice : member.slices) {
    const auto gpu = std::ranges::find(gpus, slice.gpu(), &FleetGpu::uuid);
    // One that is hidden for a moment gives nothing out; the others are held all the same.
    if (gpu == gpus.end()) continue;
    const auto device = gpu - gpus.begin();
    if (slice.whole_gpu()) {
      spot.whole |= static_cast<std::uint16_t>(1U << device);
    } else {
      spot.part_device = static_cast<std::int16_t>(device);
      spot.part = static_cast<std::uint16_t>(slice.share().thousandths());
      spot.part_memory = slice.memory().count();
    }
  }
  return spot;
}

const FleetNode* FleetView::find(const std::string& node) const {
  const auto id = cluster_->find(node);
  return id ? &fleet_.nodes[id->value()] : nullptr;
}

const FleetGpu* FleetView::find(const std::string& node, const model::GpuUuid& uuid) const {
  const FleetNode* const here = find(node);
  if (here == nullptr) return nullptr;
  const auto gpu = std::ranges::find(here->gpus, uuid, &FleetGpu::uuid);
  return gpu == here->gpus.end() ? nullptr : &*gpu;
}

std::optional<std::string> FleetView::lost(const model::JobMember& member) const {
  const FleetNode* const node = find(member.node);
  if (node != nullptr && node->lost) {
    return fmt::format("{} is lost{}{}", escape_for_terminal(member.node),
                       node->closed.empty() ? "" : ": ", escape_for_terminal(node->closed));
  }
  for (const model::Slice& slice : member.slices) {
    const FleetGpu* const gpu = find(member.node, slice.gpu());
    // One that is not listed may be hidden for a moment; nobody is ended for that.
    if (gpu == nullptr || !gpu->lost) continue;
    return fmt::format("gpu{} of {} failed{}{}", gpu->index, escape_for_terminal(member.node),
                       gpu->resting.empty() ? "" : ": ", escape_for_terminal(gpu->resting));
  }
  return std::nullopt;
}

std::string FleetView::describe(const model::JobMember& member) const {
  std::vector<std::string> pieces;
  for (const model::Slice& slice : member.slices) {
    const FleetGpu* const gpu = find(member.node, slice.gpu());
    const std::string name = gpu != nullptr ? fmt::format("gpu{}", gpu->index) : slice.gpu().str();
    pieces.push_back(slice.whole_gpu() ? name : fmt::format("{} of {}", slice.share(), name));
  }
  if (pieces.empty()) return escape_for_terminal(member.node);
  return fmt::format("{} of {}", fmt::join(pieces, " and "), escape_for_terminal(member.node));
}

}  // namespace divvy::jobs
