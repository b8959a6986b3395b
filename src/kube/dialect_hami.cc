// HAMi: cards, and of each card memory and cores; and Volcano's vGPUs, which come from the same
// family.
#include <array>

#include "base/text.h"
#include "kube/dialect.h"

namespace divvy::kube {
namespace {

constexpr std::string_view kGpu = "nvidia.com/gpu";
constexpr std::string_view kPriority = "nvidia.com/priority";
constexpr CardResources kCards{kGpu, "nvidia.com/gpumem", "nvidia.com/gpumem-percentage",
                               "nvidia.com/gpucores"};
constexpr std::array<std::string_view, 5> kResources{kGpu, kCards.memory, kCards.memory_percentage,
                                                     kCards.cores, kPriority};
constexpr std::array<std::string_view, 4> kOnlyHami{kCards.memory, kCards.memory_percentage,
                                                    kCards.cores, kPriority};
constexpr std::array<std::string_view, 9> kAnnotations{
    "nvidia.com/use-gputype",        "nvidia.com/nouse-gputype",
    "nvidia.com/use-gpuuuid",        "nvidia.com/nouse-gpuuuid",
    "nvidia.com/numa-bind",          "nvidia.com/vgpu-mode",
    "hami.io/node-scheduler-policy", "hami.io/gpu-scheduler-policy",
    "hami.io/device-scoring-weights"};
constexpr std::array<std::string_view, 1> kSchedulers{"hami-scheduler"};

std::optional<std::string> spoken(const PodView& pod, const DialectPolicy& /*policy*/) {
  return ignores_webhooks(pod) ? std::nullopt : hami_spoken(pod);
}

Result<std::vector<std::string>> list_in(const PodView& pod, std::string_view name) {
  const auto text = pod.annotation(name);
  if (!text) return std::vector<std::string>{};
  return comma_list(*text);
}

Status refuse_excluded(const PodView& pod, std::string_view name, std::string_view instead) {
  const auto text = pod.annotation(name);
  if (!text) return {};
  return refuse(text->field, fmt::format("single GPUs cannot be excluded by a pod; name those that "
                                         "will do in \"{}\"",
                                         instead));
}

Status read_placement(const PodView& pod, Reading& reading) {
  if (const auto bind = pod.annotation("nvidia.com/numa-bind")) {
    DIVVY_TRY(wanted, true_or_false(*bind));
    if (wanted) reading.topology = model::TopologyPreference::kSameNuma;
  }
  if (const auto policy = pod.annotation("hami.io/gpu-scheduler-policy")) {
    const std::string word = to_lower(trim(policy->text));
    const bool free = reading.topology == model::TopologyPreference::kAny;
    if (word == "topology-aware") {
      if (free) reading.gpus_near.closeness = model::Closeness::kNvlink;
    } else if (word == "numa") {
      if (free) reading.gpus_near.closeness = model::Closeness::kNuma;
    } else {
      reading.warnings.push_back(fmt::format("{}: Divvy places by its own policy", policy->field));
    }
  }
  for (const std::string_view name :
       {"hami.io/node-scheduler-policy", "hami.io/device-scoring-weights"}) {
    if (const auto text = pod.annotation(name)) {
      reading.warnings.push_back(fmt::format("{}: Divvy places by its own policy", text->field));
    }
  }
  return {};
}

// 0 is the higher priority of the two that HAMi knows: its kernels go first.
Status read_class(const PodContainer& container, Reading& reading) {
  DIVVY_TRY(priority, container.amount(kPriority));
  if (!priority) return {};
  if (priority->amount > 1) {
    return refuse(priority->field,
                  fmt::format("{} is neither 0 (high) nor 1 (low)", priority->amount));
  }
  const auto job_class =
      priority->amount == 0 ? model::JobClass::kLatency : model::JobClass::kBatch;
  if (reading.job_class && *reading.job_class != job_class) {
    return refuse(priority->field, "another container has another priority; all of a pod have one");
  }
  reading.job_class = job_class;
  return {};
}

Result<Reading> read(const PodView& pod, const DialectPolicy& /*policy*/) {
  Reading reading;
  for (const PodContainer& container : pod.containers()) {
    const std::size_t before = reading.asks.size();
    DIVVY_RETURN_IF_ERROR(read_cards(container, kCards, reading));
    if (reading.asks.size() == before) continue;
    const auto policy = container.environment.find("GPU_CORE_UTILIZATION_POLICY");
    if (policy != container.environment.end() && policy->second == "force") {
      reading.asks.back().asked.cap = true;
    }
    DIVVY_RETURN_IF_ERROR(read_class(container, reading));
  }
  DIVVY_TRY(models, list_in(pod, "nvidia.com/use-gputype"));
  DIVVY_TRY(denied, list_in(pod, "nvidia.com/nouse-gputype"));
  DIVVY_TRY(devices, list_in(pod, "nvidia.com/use-gpuuuid"));
  reading.models = std::move(models);
  reading.models_denied = std::move(denied);
  reading.devices = std::move(devices);
  DIVVY_RETURN_IF_ERROR(refuse_excluded(pod, "nvidia.com/nouse-gpuuuid", "nvidia.com/use-gpuuuid"));
  if (const auto text = pod.annotation("nvidia.com/vgpu-mode")) {
    DIVVY_TRY(mode, vgpu_mode(*text));
    reading.mode = mode;
  }
  DIVVY_RETURN_IF_ERROR(read_placement(pod, reading));
  return reading;
}

// ---- Volcano ------------------------------------------------------------------------------------

constexpr CardResources kVolcanoCards{"volcano.sh/vgpu-number", "volcano.sh/vgpu-memory",
                                      "volcano.sh/vgpu-memory-percentage", "volcano.sh/vgpu-cores"};
constexpr std::string_view kGpuMemory = "volcano.sh/gpu-memory";
constexpr std::string_view kGpuNumber = "volcano.sh/gpu-number";
constexpr std::array<std::string_view, 6> kVolcanoResources{
    kVolcanoCards.cards, kVolcanoCards.memory, kVolcanoCards.memory_percentage,
    kVolcanoCards.cores, kGpuMemory,           kGpuNumber};
constexpr std::array<std::string_view, 1> kVolcanoSchedulers{"volcano"};

std::optional<std::string> volcano_spoken(const PodView& pod, const DialectPolicy& /*policy*/) {
  return pod.first_resource(kVolcanoResources);
}

// Volcano's older way: memory of one card, or whole cards.
Status read_gpu_share(const PodContainer& container, Reading& reading) {
  DIVVY_TRY(memory, container.amount(kGpuMemory));
  DIVVY_TRY(number, container.amount(kGpuNumber));
  if (memory && memory->amount > 0) {
    if (number && number->amount > 0) {
      return refuse(number->field,
                    fmt::format("\"{}\" is memory of one card; leave one of them out", kGpuMemory));
    }
    DIVVY_TRY(bytes, amount_of(*memory, mib(1)));
    reading.asks.push_back({&container, Asked{Share(0), bytes}, memory->field});
  } else if (number && number->amount > 0) {
    DIVVY_TRY(share, whole_gpus(*number));
    reading.asks.push_back({&container, Asked{share}, number->field});
  }
  return {};
}

Status read_group(const PodView& pod, Reading& reading) {
  auto name = pod.annotation("scheduling.volcano.sh/group-name");
  if (!name) name = pod.annotation("scheduling.k8s.io/group-name");
  if (!name) return {};
  PodGang gang{.name = std::string(name->text)};
  if (const auto least = pod.annotation("scheduling.volcano.sh/group-min-member")) {
    DIVVY_TRY(number, whole_number(*least, model::Request::kMaxGangSize));
    gang.least = static_cast<std::uint32_t>(number);
  }
  reading.gang = std::move(gang);
  return {};
}

Result<Reading> read_volcano(const PodView& pod, const DialectPolicy& /*policy*/) {
  Reading reading;
  for (const PodContainer& container : pod.containers()) {
    const std::size_t before = reading.asks.size();
    DIVVY_RETURN_IF_ERROR(read_cards(container, kVolcanoCards, reading));
    DIVVY_RETURN_IF_ERROR(read_gpu_share(container, reading));
    if (reading.asks.size() > before + 1) {
      return refuse(
          reading.asks.back().field,
          fmt::format("{} asks for GPUs too; leave one of them out", reading.asks[before].field));
    }
  }
  if (const auto devices = pod.annotation("volcano.sh/vgpu-use-gpuuuid")) {
    DIVVY_TRY(list, comma_list(*devices));
    reading.devices = std::move(list);
  }
  DIVVY_RETURN_IF_ERROR(
      refuse_excluded(pod, "volcano.sh/vgpu-nouse-gpuuuid", "volcano.sh/vgpu-use-gpuuuid"));
  if (const auto text = pod.annotation("volcano.sh/vgpu-mode")) {
    DIVVY_TRY(mode, vgpu_mode(*text));
    reading.mode = mode;
  }
  if (const auto text = pod.annotation("volcano.sh/preemptable")) {
    DIVVY_TRY(preemptible, true_or_false(*text));
    reading.preemptible = preemptible;
  }
  reading.queue = pod.annotation("scheduling.volcano.sh/queue-name");
  DIVVY_RETURN_IF_ERROR(read_group(pod, reading));
  return reading;
}

}  // namespace

std::optional<std::string> hami_spoken(const PodView& pod) {
  if (const auto field = pod.first_resource(kOnlyHami)) return field;
  constexpr std::array<std::string_view, 1> kCardsOnly{kGpu};
  const auto cards = pod.first_resource(kCardsOnly);
  if (!cards) return std::nullopt;
  if (const auto field = pod.first_annotation(kAnnotations)) return field;
  return pod.scheduler() == kSchedulers.front() ? cards : std::nullopt;
}

bool ignores_webhooks(const PodView& pod) {
  const auto label = pod.label("hami.io/webhook");
  return label && label->text == "ignore";
}

constinit const Dialect kHamiDialect{"hami", kResources, kSchedulers, spoken, read};
constinit const Dialect kVolcanoDialect{"volcano", kVolcanoResources, kVolcanoSchedulers,
                                        volcano_spoken, read_volcano};

}  // namespace divvy::kube
