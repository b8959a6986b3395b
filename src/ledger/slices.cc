#include "ledger/slices.h"

#include <algorithm>
#include <charconv>
#include <optional>
#include <utility>

#include "base/text.h"

namespace divvy::ledger {
namespace {

constexpr Share kWholeGpu(Share::kWhole);

std::string counted(std::uint32_t count, std::string_view one) {
  return fmt::format("{} {}{}", count, one, count == 1 ? "" : "s");
}

std::string described(const model::Request& request) {
  if (request.by_memory()) return to_string(*request.memory()) + " of GPU memory";
  std::string text = to_string(request.share()) + (request.share() > kWholeGpu ? " GPUs" : " GPU");
  if (request.memory()) text += fmt::format(" with {} of memory", to_string(*request.memory()));
  return text;
}

// What is asked of the GPU that is not given whole.
Share part_of(const SharedGpu& gpu, const model::Request& request) {
  return request.by_memory() ? share_for(*request.memory(), gpu.memory) : request.fraction();
}

}  // namespace

std::vector<SharedGpu> shared_gpus(const model::Node& node) {
  std::vector<SharedGpu> result;
  for (const model::Gpu& gpu : node.gpus()) {
    if (!gpu.uuid || !gpu.memory_total) continue;
    const Bytes usable = saturating_sub(*gpu.memory_total, gpu.memory_reserved.value_or(Bytes(0)));
    SharedGpu shared{gpu.index, *gpu.uuid, gpu.name.value_or("GPU"), usable, {}};
    if (!model::accepts_new_work(gpu.health.state)) {
      shared.resting = gpu.health.reason.empty() ? "is not healthy" : gpu.health.reason;
    }
    if (gpu.mig_mode == model::MigMode::kEnabled) {
      shared.unusable = "is divided by MIG";
    }
    result.push_back(std::move(shared));
  }
  return result;
}

Bytes memory_for(const SharedGpu& gpu, const model::Request& request, Share share) {
  return request.memory().value_or(portion(gpu.memory, share));
}

Slices::Slices(std::vector<SharedGpu> gpus) : gpus_(std::move(gpus)) {}

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
  if (!want.request.accepts_model(gpu.name)) return "is of model " + gpu.name;
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

bool Slices::is_possible(const Want& want) const {
  const model::Request& request = want.request;
  if (request.gpus_per_member() > kMostGpus || request.gang_size() != 1) return false;
  std::uint32_t whole = 0;
  std::uint32_t part = 0;
  for (const SharedGpu& gpu : gpus_) {
    const bool named =
        want.only.empty() || std::ranges::find(want.only, gpu.uuid) != want.only.end();
    if (!named || !gpu.unusable.empty() || !request.accepts_model(gpu.name)) continue;
    const auto gives = [&](Share share) {
      const Bytes memory = memory_for(gpu, request, share);
      return share <= kWholeGpu && memory >= kSmallestSlice && memory <= gpu.memory;
    };
    if (gives(kWholeGpu)) ++whole;
    if (gives(part_of(gpu, request))) ++part;
  }
  if (request.gpus_per_member() == request.whole_gpus()) return whole >= request.whole_gpus();
  return whole >= request.whole_gpus() && part > request.whole_gpus();
}

NoFit Slices::why_not(const Want& want) const {
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
  const bool any_resting =
      std::ranges::any_of(gpus_, [](const SharedGpu& gpu) { return !gpu.resting.empty(); });
  answer.ever = is_possible(want);
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
  } else if (request.gpus_per_member() > kMostGpus) {
    answer.advice = fmt::format("One tenant can hold at most {} GPUs.", kMostGpus);
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

}  // namespace divvy::ledger
