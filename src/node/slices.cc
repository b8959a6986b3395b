#include "node/slices.h"

#include <algorithm>
#include <charconv>
#include <optional>
#include <tuple>
#include <utility>

#include "base/text.h"
#include "wire/pages.h"

namespace divvy::node {
namespace {

constexpr Share kWholeGpu(Share::kWhole);

std::string counted(std::uint32_t count, std::string_view one) {
  return fmt::format("{} {}{}", count, one, count == 1 ? "" : "s");
}

std::string described(const model::Request& request) {
  if (request.by_memory()) return to_string(*request.memory()) + " of GPU memory";
  std::string text = to_string(request.share()) + " GPU";
  if (request.memory()) text += fmt::format(" with {} of memory", to_string(*request.memory()));
  return text;
}

// What is asked of the GPU that is not given whole.
Share part_of(const SharedGpu& gpu, const model::Request& request) {
  return request.by_memory() ? share_for(*request.memory(), gpu.memory) : request.fraction();
}

}  // namespace

std::string_view to_string(GpuMode mode) { return mode == GpuMode::kMps ? "mps" : "timeslice"; }

Result<GpuMode> parse_gpu_mode(std::string_view text) {
  const std::string word = to_lower(trim(text));
  if (word == "timeslice") return GpuMode::kTimeslice;
  if (word == "mps") return GpuMode::kMps;
  return err(ErrorCode::kInvalidArgument, "there is no mode \"{}\"; write timeslice or mps",
             escape_for_terminal(text.substr(0, 40)));
}

std::vector<SharedGpu> shared_gpus(const model::Node& node) {
  std::vector<SharedGpu> result;
  const auto groups = model::device_groups(node);
  for (std::size_t i = 0; i < node.gpus().size(); ++i) {
    const model::Gpu& gpu = node.gpus()[i];
    if (!gpu.uuid || !gpu.memory_total) continue;
    const Bytes usable = saturating_sub(*gpu.memory_total, gpu.memory_reserved.value_or(Bytes(0)));
    SharedGpu shared{gpu.index, *gpu.uuid, gpu.name.value_or("GPU"), usable, {}};
    if (!model::accepts_new_work(gpu.health.state)) {
      shared.resting = gpu.health.reason.empty() ? "is not healthy" : gpu.health.reason;
    }
    if (gpu.mig_mode == model::MigMode::kEnabled) {
      shared.unusable = "is divided by MIG";
    }
    shared.groups = groups[i];
    result.push_back(std::move(shared));
  }
  return result;
}

Bytes memory_for(const SharedGpu& gpu, const model::Request& request, Share share) {
  return request.memory().value_or(portion(gpu.memory, share));
}

Slices::Slices(std::vector<SharedGpu> gpus) : gpus_(std::move(gpus)) {
  // No machine has more; there the lowest number decides.
  if (gpus_.size() > model::DeviceLinks::kMaxDevices) return;
  std::vector<model::DeviceGroups> groups;
  groups.reserve(gpus_.size());
  for (const SharedGpu& gpu : gpus_) groups.push_back(gpu.groups);
  links_ = model::DeviceLinks(groups);
}

const SharedGpu* Slices::find(const model::GpuUuid& uuid) const {
  const auto found = std::ranges::find(gpus_, uuid, &SharedGpu::uuid);
  return found == gpus_.end() ? nullptr : &*found;
}

void Slices::set_resting(const model::GpuUuid& uuid, std::string why, bool failing) {
  const auto found = std::ranges::find(gpus_, uuid, &SharedGpu::uuid);
  if (found == gpus_.end()) return;
  found->resting = std::move(why);
  found->failing = failing;
}

Result<model::GpuUuid> Slices::find_by_text(std::string_view text) const {
  const std::string word = to_lower(trim(text));
  std::uint32_t index = 0;
  const auto [end, code] = std::from_chars(word.data(), word.data() + word.size(), index);
  const bool is_number = code == std::errc() && end == word.data() + word.size();
  std::vector<const SharedGpu*> matches;
  for (const SharedGpu& gpu : gpus_) {
    const bool same = is_number ? gpu.index.value() == index
                                : word.size() > 4 && to_lower(gpu.uuid.str()).starts_with(word);
    if (same) matches.push_back(&gpu);
  }
  if (matches.size() == 1) return matches.front()->uuid;
  const std::string shown = escape_for_terminal(text.substr(0, 60));
  if (matches.size() > 1) {
    return err(ErrorCode::kInvalidArgument, "\"{}\" is the beginning of {} GPUs' UUIDs; write more",
               shown, matches.size());
  }
  if (gpus_.empty()) {
    return err(ErrorCode::kNotFound, "there is no GPU \"{}\": this machine has none", shown);
  }
  return err(ErrorCode::kNotFound,
             "there is no GPU \"{}\"; this machine has {} to {} (`divvy gpus -o wide` shows their "
             "UUIDs)",
             shown, gpus_.front().index, gpus_.back().index);
}

Share Slices::free_share(const model::GpuUuid& uuid) const {
  Share free = kWholeGpu;
  for (const auto& [tenant, held] : held_) {
    for (const model::Slice& slice : held.slices) {
      if (slice.gpu() == uuid) free -= slice.share();
    }
  }
  return free;
}

Bytes Slices::free_memory(const model::GpuUuid& uuid) const {
  const SharedGpu* gpu = find(uuid);
  Bytes free = gpu != nullptr ? gpu->memory : Bytes(0);
  for (const auto& [tenant, held] : held_) {
    for (const model::Slice& slice : held.slices) {
      if (slice.gpu() == uuid) free -= slice.memory();
    }
  }
  return free;
}

std::vector<model::TenantId> Slices::holders(const model::GpuUuid& uuid) const {
  std::vector<model::TenantId> result;
  for (const auto& [tenant, held] : held_) {
    const auto on_it = [&uuid](const model::Slice& slice) { return slice.gpu() == uuid; };
    if (std::ranges::any_of(held.slices, on_it)) result.push_back(tenant);
  }
  return result;
}

std::optional<GpuMode> Slices::mode_of(const model::GpuUuid& uuid) const {
  const auto tenants = holders(uuid);
  if (tenants.empty()) return std::nullopt;
  return held_.at(tenants.front()).mode;
}

std::string Slices::objection(const SharedGpu& gpu, const Want& want, Share share,
                              Bytes memory) const {
  if (!want.only.empty() && std::ranges::find(want.only, gpu.uuid) == want.only.end()) {
    return "not among the GPUs that were asked for";
  }
  if (!gpu.unusable.empty()) return gpu.unusable;
  if (!gpu.resting.empty()) return gpu.resting;
  if (!want.request.accepts_model(gpu.name)) return "is a " + gpu.name;
  if (memory > gpu.memory) {
    return fmt::format("has {} of memory in all", humanize(gpu.memory));
  }
  const Share share_left = free_share(gpu.uuid);
  if (share == kWholeGpu && share_left < kWholeGpu) {
    return fmt::format("is held in part ({} free)", to_string(share_left));
  }
  const auto mode = mode_of(gpu.uuid);
  if (mode && *mode != want.mode) {
    return fmt::format("is shared in mode {} now", to_string(*mode));
  }
  if (share > share_left) {
    return share_left == Share(0) ? "is held entirely"
                                  : fmt::format("has {} GPU free", to_string(share_left));
  }
  const Bytes memory_left = free_memory(gpu.uuid);
  if (memory > memory_left) return fmt::format("has {} of memory free", humanize(memory_left));
  return {};
}

bool Slices::gives(const SharedGpu& gpu, const Want& want, Share share) const {
  const Bytes memory = memory_for(gpu, want.request, share);
  return memory >= kSmallestSlice && objection(gpu, want, share, memory).empty();
}

tl::expected<std::vector<model::Slice>, NoFit> Slices::fit(const Want& want) const {
  const model::Request& request = want.request;
  std::vector<model::Slice> slices;
  const auto grant = [&](const SharedGpu& gpu, Share share) {
    auto slice =
        model::Slice::create(gpu.uuid, memory_for(gpu, request, share), share, request.kind());
    DIVVY_CHECK(slice.has_value(), "{}", slice.error().message);
    slices.push_back(*std::move(slice));
  };
  if (request.gpus_per_member() > wire::kMaxGpus || request.gang_size() != 1) {
    return tl::unexpected(explain(want));
  }

  const std::vector<std::size_t> whole = whole_gpus(want);
  if (whole.size() < request.whole_gpus()) return tl::unexpected(explain(want));
  for (const std::size_t i : whole) grant(gpus_[i], kWholeGpu);
  if (request.gpus_per_member() == request.whole_gpus()) return slices;

  std::optional<std::size_t> best;
  for (const std::size_t i : nearest_first(whole)) {
    if (!gives(gpus_[i], want, part_of(gpus_[i], request))) continue;
    if (!best || free_share(gpus_[i].uuid) < free_share(gpus_[*best].uuid)) best = i;
  }
  if (!best) return tl::unexpected(explain(want));
  grant(gpus_[*best], part_of(gpus_[*best], request));
  return slices;
}

// All GPUs that nobody holds, for the links.
model::DeviceLinks::Devices Slices::idle() const {
  model::DeviceLinks::Devices idle = 0;
  for (std::size_t i = 0; i < gpus_.size() && i < model::DeviceLinks::kMaxDevices; ++i) {
    if (!mode_of(gpus_[i].uuid)) idle |= model::DeviceLinks::Devices{1} << i;
  }
  return idle;
}

std::vector<std::size_t> Slices::whole_gpus(const Want& want) const {
  std::vector<std::size_t> candidates;
  for (std::size_t i = 0; i < gpus_.size(); ++i) {
    if (gives(gpus_[i], want, kWholeGpu)) candidates.push_back(i);
  }
  const std::size_t wanted = want.request.whole_gpus();
  if (candidates.size() <= wanted || wanted == 0 || !links_.matter()) {
    candidates.resize(std::min(candidates.size(), wanted));
    return candidates;
  }
  model::DeviceLinks::Devices devices = 0;
  for (const std::size_t i : candidates) devices |= model::DeviceLinks::Devices{1} << i;
  const auto chosen = links_.closest(devices, static_cast<std::uint32_t>(wanted), idle());
  std::erase_if(candidates, [&](std::size_t i) { return (chosen >> i & 1) == 0; });
  return candidates;
}

std::vector<std::size_t> Slices::nearest_first(const std::vector<std::size_t>& taken) const {
  std::vector<std::size_t> order;
  for (std::size_t i = 0; i < gpus_.size(); ++i) {
    if (std::ranges::find(taken, i) == taken.end()) order.push_back(i);
  }
  if (!links_.matter()) return order;
  model::DeviceLinks::Devices whole = 0;
  for (const std::size_t i : taken) whole |= model::DeviceLinks::Devices{1} << i;
  std::ranges::sort(order, {}, [&, idle = idle()](std::size_t i) {
    const auto with = whole | model::DeviceLinks::Devices{1} << i;
    return std::tuple(links_.distance(i, whole), links_.broken(with, idle),
                      links_.left_beside(with, idle), i);
  });
  return order;
}

NoFit Slices::explain(const Want& want) const {
  const model::Request& request = want.request;
  NoFit answer;
  Bytes largest(0);
  std::uint32_t allowed = 0;
  for (const SharedGpu& gpu : gpus_) {
    const Share each = request.whole_gpus() > 0 ? kWholeGpu : part_of(gpu, request);
    const Bytes memory = memory_for(gpu, request, each);
    std::string reason = objection(gpu, want, each, memory);
    if (reason.empty() && memory < kSmallestSlice) {
      reason = fmt::format("would give {} of memory", humanize(memory));
    }
    if (reason.empty()) reason = "would fit, but is not enough";
    // Who named some GPUs knows why it is none of the others.
    const bool named =
        want.only.empty() || std::ranges::find(want.only, gpu.uuid) != want.only.end();
    if (named) {
      answer.obstacles.push_back({gpu.index, std::move(reason), free_share(gpu.uuid),
                                  free_memory(gpu.uuid), holders(gpu.uuid)});
    }
    if (named && gpu.unusable.empty() && request.accepts_model(gpu.name)) {
      ++allowed;
      largest = std::max(largest, gpu.memory);
    }
  }
  // What rests now comes back some day.
  std::vector<SharedGpu> rested = gpus_;
  bool any_resting = false;
  for (SharedGpu& gpu : rested)
    any_resting = !std::exchange(gpu.resting, {}).empty() || any_resting;
  if (!held_.empty() || any_resting) answer.ever = Slices(std::move(rested)).fit(want).has_value();
  answer.rests = any_resting && (held_.empty() || !Slices(gpus_).fit(want).has_value());
  answer.summary = fmt::format("{} {} not fit on this machine now", described(request),
                               request.share() > kWholeGpu ? "do" : "does");
  if (answer.ever) {
    answer.advice = any_resting ? "Wait until somebody releases theirs or a GPU is in use again "
                                  "(--wait), or ask for less; `divvy gpu list` shows the GPUs."
                                : "Wait until somebody releases theirs (--wait), or ask for less.";
    return answer;
  }

  answer.summary = fmt::format("{} can never fit on this machine", described(request));
  if (gpus_.empty()) {
    answer.advice = "It has no GPU that can be shared; `divvy gpus` says why.";
  } else if (allowed == 0) {
    answer.advice = "None of its GPUs may be used for it; `divvy gpus` shows how they are.";
  } else if (request.gpus_per_member() > wire::kMaxGpus) {
    answer.advice = fmt::format("One tenant can hold at most {} GPUs.", wire::kMaxGpus);
  } else if (request.gpus_per_member() > allowed) {
    answer.advice = fmt::format("It has {} that may be used for it; ask for at most --gpu {}.",
                                counted(allowed, "GPU"), allowed);
  } else if (request.memory() && *request.memory() > largest) {
    answer.advice = fmt::format(
        "Its largest GPU has {} that programs can use; ask for at most that much with --gpu-mem.",
        humanize(largest));
  } else {
    answer.advice =
        fmt::format("A slice has at least {} of memory; ask for more with --gpu or --gpu-mem.",
                    to_string(kSmallestSlice));
  }
  return answer;
}

Status Slices::take(model::TenantId tenant, std::vector<model::Slice> slices, GpuMode mode) {
  if (held_.contains(tenant)) {
    return err(ErrorCode::kAlreadyExists, "tenant {} holds slices already", tenant);
  }
  for (const model::Slice& slice : slices) {
    const SharedGpu* gpu = find(slice.gpu());
    if (gpu == nullptr) {
      return err(ErrorCode::kNotFound, "this machine has no GPU {} any more", slice.gpu());
    }
    const auto twice = std::ranges::count(slices, slice.gpu(), &model::Slice::gpu);
    const auto other = mode_of(slice.gpu());
    if (twice > 1 || slice.share() > free_share(slice.gpu()) ||
        slice.memory() > free_memory(slice.gpu()) || (other && *other != mode)) {
      return err(ErrorCode::kResourceExhausted, "GPU {} does not have {} GPU and {} free",
                 gpu->index, to_string(slice.share()), humanize(slice.memory()));
    }
  }
  held_.emplace(tenant, Held{std::move(slices), mode});
  return {};
}

void Slices::give_back(model::TenantId tenant) { held_.erase(tenant); }

Status Slices::change(model::TenantId tenant, std::vector<model::Slice> slices) {
  const auto found = held_.find(tenant);
  if (found == held_.end()) return err(ErrorCode::kNotFound, "there is no tenant {}", tenant);
  Held before = std::move(found->second);
  held_.erase(found);
  const GpuMode mode = before.mode;
  Status taken = take(tenant, std::move(slices), mode);
  if (!taken) held_.emplace(tenant, std::move(before));
  return taken;
}

}  // namespace divvy::node
