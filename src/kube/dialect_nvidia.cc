// NVIDIA's device plugin: whole GPUs, or the replicas that each GPU counts for when it is shared.
// Other plugins may offer the same names on other nodes, so the namespace's policy decides.
#include <array>

#include "kube/dialect.h"

namespace divvy::kube {
namespace {

constexpr std::string_view kGpu = "nvidia.com/gpu";
constexpr std::string_view kShared = "nvidia.com/gpu.shared";
constexpr std::array<std::string_view, 1> kWhole{kGpu};
constexpr std::array<std::string_view, 2> kReplicas{kGpu, kShared};
constexpr std::array<std::string_view, 1> kSharedOnly{kShared};

std::optional<std::string> whole_spoken(const PodView& pod, const DialectPolicy& policy) {
  if (policy.nvidia_gpus != NvidiaGpus::kWhole) return std::nullopt;
  if (ignores_webhooks(pod) || hami_spoken(pod)) return std::nullopt;
  return pod.first_resource(kWhole);
}

std::optional<std::string> replicas_spoken(const PodView& pod, const DialectPolicy& policy) {
  if (policy.nvidia_gpus == NvidiaGpus::kLeave || ignores_webhooks(pod)) return std::nullopt;
  // HAMi counts cards by the first name too, and does not know the second.
  const bool all = policy.nvidia_gpus == NvidiaGpus::kReplicas && !hami_spoken(pod);
  return pod.first_resource(all ? std::span<const std::string_view>(kReplicas) : kSharedOnly);
}

Result<Reading> read_whole(const PodView& pod, const DialectPolicy& /*policy*/) {
  Reading reading;
  for (const PodContainer& container : pod.containers()) {
    DIVVY_TRY(count, container.amount(kGpu));
    if (!count || count->amount == 0) continue;
    DIVVY_TRY(share, whole_gpus(*count));
    reading.asks.push_back({&container, Asked{share}, count->field});
  }
  return reading;
}

Result<Share> share_of_replicas(const PodAmount& count, std::uint32_t replicas) {
  if (replicas == 0) {
    return refuse(count.field,
                  "how many replicas a GPU has is not set for this namespace; the operator of "
                  "Divvy sets it, or write divvy.dev/gpu instead");
  }
  if (count.amount > std::uint64_t{Share::max().whole_part()} * replicas) {
    return refuse(count.field, fmt::format("{} are more than any node has", count.amount));
  }
  // Rounded down, so that the replicas of a GPU never come to more than the GPU.
  const std::uint64_t thousandths = count.amount * Share::kWhole / replicas;
  if (thousandths == 0) {
    return refuse(count.field,
                  fmt::format("one of {} replicas is less than a thousandth of a GPU", replicas));
  }
  return Share(static_cast<std::uint32_t>(thousandths));
}

Result<Reading> read_replicas(const PodView& pod, const DialectPolicy& policy) {
  Reading reading;
  for (const PodContainer& container : pod.containers()) {
    std::optional<PodAmount> asked;
    for (const std::string_view name : kReplicas) {
      DIVVY_TRY(count, container.amount(name));
      if (!count || count->amount == 0) continue;
      if (asked) {
        return refuse(count->field,
                      fmt::format("{} asks for GPUs too; leave one of them out", asked->field));
      }
      asked = count;
    }
    if (!asked) continue;
    DIVVY_TRY(share, share_of_replicas(*asked, policy.replicas_per_gpu));
    reading.asks.push_back({&container, Asked{share}, asked->field});
  }
  return reading;
}

}  // namespace

constinit const Dialect kNvidiaDialect{"nvidia", kWhole, {}, whole_spoken, read_whole};
constinit const Dialect kNvidiaReplicasDialect{
    "nvidia-replicas", kReplicas, {}, replicas_spoken, read_replicas};

}  // namespace divvy::kube
