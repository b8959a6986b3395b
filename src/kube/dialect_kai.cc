// KAI and Run:ai: annotations of the pod, for one container.
#include <array>
#include <boost/json.hpp>
#include <map>

#include "base/text.h"
#include "kube/dialect.h"
#include "kube/quantity.h"

namespace divvy::kube {
namespace {

constexpr std::array<std::string_view, 3> kAnnotations{"gpu-fraction", "gpu-memory",
                                                       "gpu-fraction-num-devices"};
constexpr std::array<std::string_view, 2> kSchedulers{"kai-scheduler", "runai-scheduler"};
constexpr std::string_view kContainerPrefix = "nvidia.com/container.";
constexpr std::string_view kMemoryRequest = ".gpu-memory.request";
constexpr std::string_view kMemoryLimit = ".gpu-memory.limit";
constexpr std::string_view kComputeMode = ".gpu-compute.mode";

// "main" of "nvidia.com/container.main.gpu-memory.limit"; nothing for another annotation.
std::optional<std::string_view> container_of(std::string_view annotation, std::string_view what) {
  if (!annotation.starts_with(kContainerPrefix) || !annotation.ends_with(what)) return std::nullopt;
  if (annotation.size() <= kContainerPrefix.size() + what.size()) return std::nullopt;
  annotation.remove_prefix(kContainerPrefix.size());
  annotation.remove_suffix(what.size());
  return annotation;
}

std::optional<std::string> spoken(const PodView& pod, const DialectPolicy& /*policy*/) {
  if (const auto field = pod.first_annotation(kAnnotations)) return field;
  for (const auto& entry : pod.annotations()) {
    const std::string_view name = entry.key();
    if (container_of(name, kMemoryRequest) || container_of(name, kMemoryLimit)) {
      return pod.annotation(name)->field;
    }
  }
  return std::nullopt;
}

Result<Asked> fraction_asked(const PodView& pod) {
  const auto fraction = pod.annotation("gpu-fraction");
  const auto memory = pod.annotation("gpu-memory");
  if (fraction && memory) {
    return refuse(memory->field, "gpu-fraction says how much, too; leave one of them out");
  }
  if (const auto devices = pod.annotation("gpu-fraction-num-devices")) {
    DIVVY_TRY(number, whole_number(*devices, model::Request::kMaxGangSize));
    if (!fraction && !memory) {
      return refuse(devices->field, "it needs gpu-fraction or gpu-memory beside it");
    }
    if (number != 1) {
      return refuse(devices->field,
                    fmt::format("a part of each of {} GPUs cannot be had in one container; ask for "
                                "1, or for whole ones with nvidia.com/gpu",
                                number));
    }
  }
  if (memory) {
    DIVVY_TRY(count, whole_number(*memory, std::uint64_t{1} << 40U));
    if (count == 0) return refuse(memory->field, "no program runs in 0 MiB");
    return Asked{Share(0), mib(count)};
  }
  const auto share = parse_share(fraction->text);
  if (!share || *share == Share(0) || *share >= Share(Share::kWhole)) {
    return refuse(fraction->field,
                  fmt::format("\"{}\" is no part of a GPU; write it like 0.5, with at most three "
                              "decimals, and whole GPUs as nvidia.com/gpu",
                              escape_for_terminal(fraction->text.substr(0, 60))));
  }
  return Asked{*share};
}

// NVIDIA's fractions: memory for each container by its name.
Status read_container_memory(const PodView& pod, Reading& reading) {
  for (const PodContainer& container : pod.containers()) {
    const std::string prefix = std::string(kContainerPrefix) + container.name;
    const auto request = pod.annotation(prefix + std::string(kMemoryRequest));
    const auto limit = pod.annotation(prefix + std::string(kMemoryLimit));
    const auto& text = limit ? limit : request;
    if (!text) continue;
    const auto bytes = parse_whole_quantity(trim(text->text));
    if (!bytes) return refuse(text->field, bytes.error().message);
    if (Bytes(*bytes) < mib(1)) {
      return refuse(text->field, fmt::format("{} is in bytes; write it like 10Gi", *bytes));
    }
    if (limit && request && limit->text != request->text) {
      reading.warnings.push_back(fmt::format(
          "{}: memory is never taken back, so the limit is what is held", limit->field));
    }
    if (const auto mode = pod.annotation(prefix + std::string(kComputeMode))) {
      const std::string_view word = trim(mode->text);
      if (word == "sm-sharing") {
        reading.mode = model::GpuMode::kMps;
      } else if (word != "time-slicing") {
        return refuse(mode->field, "write time-slicing or sm-sharing");
      }
    }
    reading.asks.push_back({&container, Asked{Share(0), Bytes(*bytes)}, text->field});
  }
  for (const auto& entry : pod.annotations()) {
    for (const std::string_view what : {kMemoryRequest, kMemoryLimit}) {
      const auto name = container_of(entry.key(), what);
      if (name && pod.container(*name) == nullptr) {
        return refuse(pod.annotation(entry.key())->field,
                      fmt::format("the pod has no container \"{}\"",
                                  escape_for_terminal(name->substr(0, 60))));
      }
    }
  }
  return {};
}

Status read_kai_treatment(const PodView& pod, Reading& reading) {
  if (const auto text = pod.annotation("mps")) {
    DIVVY_TRY(wanted, true_or_false(*text));
    if (wanted) reading.mode = model::GpuMode::kMps;
  }
  auto preemptible = pod.annotation("kai.scheduler/preemptibility");
  if (!preemptible) preemptible = pod.label("kai.scheduler/preemptibility");
  if (preemptible) {
    const std::string_view word = trim(preemptible->text);
    if (word != "preemptible" && word != "non-preemptible") {
      return refuse(preemptible->field, "write preemptible or non-preemptible");
    }
    reading.preemptible = word == "preemptible";
  }
  reading.queue = pod.label("kai.scheduler/queue");
  if (!reading.queue) reading.queue = pod.label("runai/queue");
  if (const auto group = pod.annotation("pod-group-name")) {
    reading.gang = PodGang{.name = std::string(group->text)};
  }
  return {};
}

Result<Reading> read(const PodView& pod, const DialectPolicy& /*policy*/) {
  Reading reading;
  DIVVY_RETURN_IF_ERROR(read_container_memory(pod, reading));
  if (const auto field = pod.first_annotation(kAnnotations)) {
    if (!reading.asks.empty()) {
      return refuse(*field, fmt::format("{} asks for GPUs too; leave one of them out",
                                        reading.asks.front().field));
    }
    DIVVY_TRY(asked, fraction_asked(pod));
    DIVVY_TRY(containers, named_containers(pod, "gpu-fraction-container-name"));
    if (containers.size() != 1) {
      return refuse(pod.annotation("gpu-fraction-container-name")->field, "name one container");
    }
    reading.asks.push_back({containers.front(), asked, *field});
  }
  DIVVY_RETURN_IF_ERROR(read_kai_treatment(pod, reading));
  return reading;
}

}  // namespace

constinit const Dialect kKaiDialect{"kai", {}, kSchedulers, spoken, read};

}  // namespace divvy::kube
