// What a dialect is to pod_request.cc: how to see that a pod speaks it, and what the pod says. One
// value for each, in dialect_*.cc; pod_request.cc has the list. Internal to the room, pure.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "base/units.h"
#include "kube/pod_request.h"
#include "kube/pod_view.h"

namespace divvy::kube {

// What one container asks for.
struct Asked {
  Share share;  // zero with `memory`: as large as the memory is
  std::optional<Bytes> memory = std::nullopt;
  bool cap = false;
  friend bool operator==(const Asked&, const Asked&) = default;
};

struct ContainerAsk {
  const PodContainer* container = nullptr;
  Asked asked;
  std::string field;  // where it stands, for messages
};

// What a pod says in one dialect. What is not said is left for Divvy's own annotations.
struct Reading {
  std::vector<ContainerAsk> asks = {};
  std::vector<std::string> models = {};
  std::vector<std::string> models_denied = {};
  std::vector<std::string> devices = {};
  model::TopologyPreference topology = model::TopologyPreference::kAny;
  model::Near gpus_near = {};
  model::Near members_near = {};  // the pods of its gang
  std::optional<model::JobClass> job_class = std::nullopt;
  std::optional<model::GpuMode> mode = std::nullopt;
  std::optional<bool> preemptible = std::nullopt;
  std::optional<std::int32_t> priority = std::nullopt;
  std::optional<PodText> queue = std::nullopt;
  std::optional<PodGang> gang = std::nullopt;
  std::vector<std::string> warnings = {};
};

struct Dialect {
  std::string_view name;
  // Taken out of the containers of a pod that speaks it.
  std::span<const std::string_view> resources;
  // Of the system that it comes from; pods that name it are given to the cluster's own.
  std::span<const std::string_view> schedulers;
  // The field that shows that the pod speaks it.
  std::optional<std::string> (*spoken)(const PodView& pod, const DialectPolicy& policy);
  Result<Reading> (*read)(const PodView& pod, const DialectPolicy& policy);
};

extern const Dialect kDivvyDialect;
extern const Dialect kNvidiaDialect;
extern const Dialect kNvidiaReplicasDialect;
extern const Dialect kHamiDialect;
extern const Dialect kKaiDialect;
extern const Dialect kVolcanoDialect;
extern const Dialect kAliyunDialect;
extern const Dialect kTencentDialect;
extern const Dialect kKubeShareDialect;

// Of the dialects that use `nvidia.com/gpu`, HAMi's is the one that says more than a number; and a
// pod that asked its webhook to look away is nobody's.
[[nodiscard]] std::optional<std::string> hami_spoken(const PodView& pod);
[[nodiscard]] bool ignores_webhooks(const PodView& pod);

// ---- what several of them need ------------------------------------------------------------------

[[nodiscard]] inline tl::unexpected<Error> refuse(std::string_view field, std::string_view what) {
  return err(ErrorCode::kInvalidArgument, "{}: {}", field, what);
}

// Any number of containers that each name cards, memory and cores of a card: HAMi and Volcano.
struct CardResources {
  std::string_view cards;
  std::string_view memory;             // MiB of each card
  std::string_view memory_percentage;  // of each card
  std::string_view cores;              // percent of each card
};
// Adds what the container asks for, if anything.
[[nodiscard]] Status read_cards(const PodContainer& container, const CardResources& names,
                                Reading& reading);

[[nodiscard]] Result<std::uint64_t> whole_number(const PodText& text, std::uint64_t most);
[[nodiscard]] Result<bool> true_or_false(const PodText& text);
// "A100, H100": without the spaces; an empty piece is refused.
[[nodiscard]] Result<std::vector<std::string>> comma_list(const PodText& text);
[[nodiscard]] Result<Bytes> amount_of(const PodAmount& count, Bytes unit);
[[nodiscard]] Result<Share> share_of_percent(const PodAmount& percent);
[[nodiscard]] Result<Share> whole_gpus(const PodAmount& count);
// hami-core, mig or mps, as HAMi and Volcano spell them.
[[nodiscard]] Result<std::optional<model::GpuMode>> vgpu_mode(const PodText& text);
// The containers that the annotation names; without it the first one.
[[nodiscard]] Result<std::vector<const PodContainer*>> named_containers(
    const PodView& pod, std::string_view annotation);

}  // namespace divvy::kube
