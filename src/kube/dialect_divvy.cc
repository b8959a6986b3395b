// Divvy's own: annotations that say how much of a GPU each named container gets, or resources in
// the containers themselves, which have to be whole numbers and therefore count thousandths.
#include <array>

#include "base/memory_amount.h"
#include "kube/dialect.h"

namespace divvy::kube {
namespace {

constexpr std::string_view kGpu = "divvy.dev/gpu";
constexpr std::string_view kMemory = "divvy.dev/gpu-memory";
constexpr std::string_view kContainer = "divvy.dev/container";
constexpr std::array<std::string_view, 2> kAmounts{kGpu, kMemory};

std::optional<std::string> spoken(const PodView& pod, const DialectPolicy& /*policy*/) {
  const auto annotation = pod.first_annotation(kAmounts);
  return annotation ? annotation : pod.first_resource(kAmounts);
}

// Errors of the parsers of base have a drawing with a caret under their first line.
std::string first_line(const std::string& message) { return message.substr(0, message.find('\n')); }

Result<Asked> annotated(const PodView& pod) {
  Asked asked;
  const auto gpu = pod.annotation(kGpu);
  const auto memory = pod.annotation(kMemory);
  if (gpu) {
    const auto share = parse_share(gpu->text);
    if (!share) return refuse(gpu->field, first_line(share.error().message));
    if (*share == Share(0)) {
      return refuse(gpu->field, "a pod without a GPU does not need it; leave it out");
    }
    asked.share = *share;
  }
  if (memory) {
    const auto bytes = parse_memory(memory->text);
    if (!bytes) return refuse(memory->field, first_line(bytes.error().message));
    if (*bytes == Bytes(0))
      return refuse(memory->field, "no program runs in 0 bytes; leave it out");
    asked.memory = *bytes;
  }
  return asked;
}

Result<std::optional<Asked>> asked_by(const PodContainer& container) {
  DIVVY_TRY(gpu, container.amount(kGpu));
  DIVVY_TRY(memory, container.amount(kMemory));
  Asked asked;
  if (gpu && gpu->amount > 0) {
    // Whoever writes 1 means one GPU, and whoever means a hundredth can say so in the annotation.
    if (gpu->amount < 10) {
      return refuse(gpu->field,
                    fmt::format("it is in thousandths of a GPU; write {} for {} GPU{}",
                                gpu->amount * 1000, gpu->amount, gpu->amount == 1 ? "" : "s"));
    }
    if (gpu->amount > Share::kMaxThousandths) {
      return refuse(gpu->field, "it is more than any node has; 1000 is one GPU");
    }
    asked.share = Share(static_cast<std::uint32_t>(gpu->amount));
  }
  if (memory && memory->amount > 0) {
    if (Bytes(memory->amount) < mib(1)) {
      return refuse(memory->field,
                    fmt::format("{} is in bytes; write it like 10Gi", memory->amount));
    }
    asked.memory = Bytes(memory->amount);
  }
  if (asked == Asked{}) return std::nullopt;
  return asked;
}

Result<Reading> read(const PodView& pod, const DialectPolicy& /*policy*/) {
  Reading reading;
  const auto resource = pod.first_resource(kAmounts);
  if (const auto annotation = pod.first_annotation(kAmounts)) {
    if (resource) {
      return refuse(*resource,
                    fmt::format("{} asks for GPUs too; leave one of them out", *annotation));
    }
    DIVVY_TRY(asked, annotated(pod));
    DIVVY_TRY(containers, named_containers(pod, kContainer));
    for (const PodContainer* container : containers) {
      reading.asks.push_back({container, asked, *annotation});
    }
    return reading;
  }
  for (const PodContainer& container : pod.containers()) {
    DIVVY_TRY(asked, asked_by(container));
    if (asked) reading.asks.push_back({&container, *asked, container.field + ".resources"});
  }
  return reading;
}

}  // namespace

constinit const Dialect kDivvyDialect{"divvy", kAmounts, {}, spoken, read};

}  // namespace divvy::kube
