// Aliyun's gpushare (memory in GiB), Tencent's vcuda (hundredths of a GPU, memory in 256 MiB) and
// KubeShare (labels of the pod).
#include <array>

#include "base/text.h"
#include "kube/dialect.h"

namespace divvy::kube {
namespace {

// ---- Aliyun -------------------------------------------------------------------------------------

constexpr std::string_view kAliyunMemory = "aliyun.com/gpu-mem";
constexpr std::string_view kAliyunCount = "aliyun.com/gpu-count";
constexpr std::string_view kAliyunCores = "aliyun.com/gpu-core.percentage";
constexpr std::string_view kAliyunGpu = "aliyun.com/gpu";
constexpr std::array<std::string_view, 4> kAliyunResources{kAliyunMemory, kAliyunCount,
                                                           kAliyunCores, kAliyunGpu};

std::optional<std::string> aliyun_spoken(const PodView& pod, const DialectPolicy& /*policy*/) {
  return pod.first_resource(kAliyunResources);
}

Result<std::optional<PodAmount>> above_zero(const PodContainer& container,
                                            std::string_view resource) {
  DIVVY_TRY(amount, container.amount(resource));
  if (amount && amount->amount == 0) amount.reset();
  return amount;
}

Status read_aliyun_container(const PodContainer& container, Reading& reading) {
  DIVVY_TRY(memory, above_zero(container, kAliyunMemory));
  DIVVY_TRY(count, above_zero(container, kAliyunCount));
  DIVVY_TRY(cores, above_zero(container, kAliyunCores));
  DIVVY_TRY(gpus, above_zero(container, kAliyunGpu));
  if (gpus) {
    if (const auto& other = memory ? memory : cores ? cores : count) {
      return refuse(other->field,
                    fmt::format("\"{}\" are whole GPUs; leave one of them out", kAliyunGpu));
    }
    DIVVY_TRY(share, whole_gpus(*gpus));
    reading.asks.push_back({&container, Asked{share}, gpus->field});
    return {};
  }
  if (count && count->amount != 1) {
    return refuse(count->field, fmt::format("a part of each of {} GPUs cannot be had in one "
                                            "container; ask for 1, or for whole ones with \"{}\"",
                                            count->amount, kAliyunGpu));
  }
  if (count && !memory && !cores) {
    return refuse(count->field,
                  fmt::format("how much of it? Write \"{}\" in GiB beside it", kAliyunMemory));
  }
  if (!memory && !cores) return {};
  Asked asked;
  if (memory) {
    DIVVY_TRY(bytes, amount_of(*memory, gib(1)));
    asked.memory = bytes;
  }
  if (cores) {
    DIVVY_TRY(share, share_of_percent(*cores));
    asked.share = share;
  }
  reading.asks.push_back({&container, asked, (memory ? memory : cores)->field});
  return {};
}

Result<Reading> read_aliyun(const PodView& pod, const DialectPolicy& /*policy*/) {
  Reading reading;
  for (const PodContainer& container : pod.containers()) {
    DIVVY_RETURN_IF_ERROR(read_aliyun_container(container, reading));
  }
  return reading;
}

// ---- Tencent ------------------------------------------------------------------------------------

constexpr std::string_view kVcudaCore = "tencent.com/vcuda-core";
constexpr std::string_view kVcudaMemory = "tencent.com/vcuda-memory";
constexpr std::array<std::string_view, 2> kTencentResources{kVcudaCore, kVcudaMemory};

std::optional<std::string> tencent_spoken(const PodView& pod, const DialectPolicy& /*policy*/) {
  return pod.first_resource(kTencentResources);
}

Status read_vcuda(const PodContainer& container, std::optional<std::uint64_t> core_limit,
                  Reading& reading) {
  DIVVY_TRY(core, above_zero(container, kVcudaCore));
  DIVVY_TRY(memory, above_zero(container, kVcudaMemory));
  if (!core) {
    if (!memory) return {};
    return refuse(
        memory->field,
        fmt::format("it needs \"{}\" beside it: how many hundredths of a GPU?", kVcudaCore));
  }
  Asked asked;
  if (core->amount < 100) {
    DIVVY_TRY(share, share_of_percent(*core));
    asked.share = share;
    if (memory) {
      DIVVY_TRY(bytes, amount_of(*memory, mib(256)));
      asked.memory = bytes;
    }
    asked.cap = core_limit == core->amount;
    if (core_limit && *core_limit < core->amount) {
      return refuse(core->field, fmt::format("it is above the limit of {} in "
                                             "\"tencent.com/vcuda-core-limit\"",
                                             *core_limit));
    }
  } else if (core->amount % 100 == 0) {
    DIVVY_TRY(share, whole_gpus({core->amount / 100, core->field}));
    asked.share = share;
    if (memory) {
      reading.warnings.push_back(
          fmt::format("{}: whole GPUs come with all of their memory", memory->field));
    }
  } else {
    return refuse(core->field, fmt::format("{} is neither a part of one GPU nor whole GPUs; write "
                                           "less than 100, or a multiple of 100",
                                           core->amount));
  }
  reading.asks.push_back({&container, asked, core->field});
  return {};
}

Result<Reading> read_tencent(const PodView& pod, const DialectPolicy& /*policy*/) {
  Reading reading;
  std::optional<std::uint64_t> core_limit;
  const auto text = pod.annotation("tencent.com/vcuda-core-limit");
  if (text) {
    DIVVY_TRY(limit, whole_number(*text, 100));
    core_limit = limit;
  }
  for (const PodContainer& container : pod.containers()) {
    DIVVY_RETURN_IF_ERROR(read_vcuda(container, core_limit, reading));
  }
  for (const ContainerAsk& ask : reading.asks) {
    if (text && !ask.asked.cap && ask.asked.share < Share(Share::kWhole) && *core_limit != 100) {
      reading.warnings.push_back(fmt::format(
          "{}: a limit above the share is not kept; all of an idle GPU may be used", text->field));
    }
  }
  return reading;
}

// ---- KubeShare ----------------------------------------------------------------------------------

constexpr std::array<std::string_view, 3> kKubeShareAmounts{
    "sharedgpu/gpu_request", "sharedgpu/gpu_limit", "sharedgpu/gpu_mem"};
constexpr std::array<std::string_view, 1> kKubeShareSchedulers{"kubeshare-scheduler"};

std::optional<std::string> kubeshare_spoken(const PodView& pod, const DialectPolicy& /*policy*/) {
  for (const std::string_view name : kKubeShareAmounts) {
    if (const auto label = pod.label(name)) return label->field;
  }
  return std::nullopt;
}

Result<Share> share_in(const PodText& text) {
  const auto share = parse_share(text.text);
  if (share && *share <= Share(Share::kWhole)) return *share;
  return refuse(text.field,
                fmt::format("\"{}\" is no part of a GPU; write 0.001 to 1.0, and several GPUs as "
                            "divvy.dev/gpu",
                            escape_for_terminal(text.text.substr(0, 60))));
}

Result<Asked> kubeshare_asked(const PodView& pod, Reading& reading) {
  const auto request = pod.label("sharedgpu/gpu_request");
  const auto limit = pod.label("sharedgpu/gpu_limit");
  const auto memory = pod.label("sharedgpu/gpu_mem");
  Asked asked;
  if (request) {
    DIVVY_TRY(share, share_in(*request));
    asked.share = share;
  }
  if (memory) {
    DIVVY_TRY(bytes, whole_number(*memory, std::uint64_t{1} << 60U));
    if (bytes != 0 && Bytes(bytes) < mib(1)) {
      return refuse(memory->field, fmt::format("{} is in bytes, which is too little", bytes));
    }
    if (bytes != 0) asked.memory = Bytes(bytes);
  }
  if (limit) {
    DIVVY_TRY(most, share_in(*limit));
    if (most < asked.share) {
      return refuse(limit->field, fmt::format("{} is below gpu_request, {}", most, asked.share));
    }
    asked.cap = most == asked.share && most < Share(Share::kWhole);
    if (!asked.cap && most < Share(Share::kWhole)) {
      reading.warnings.push_back(
          fmt::format("{}: a limit above gpu_request is not kept; all of an idle GPU may be used",
                      limit->field));
    }
  }
  if (asked.share == Share(0) && !asked.memory) {
    return refuse(request ? request->field
                  : limit ? limit->field
                          : memory->field,
                  "nothing is guaranteed to this pod; write sharedgpu/gpu_request or "
                  "sharedgpu/gpu_mem above 0");
  }
  return asked;
}

Status read_kubeshare_group(const PodView& pod, Reading& reading) {
  const auto name = pod.label("sharedgpu/group_name");
  if (!name) return {};
  PodGang gang{.name = std::string(name->text)};
  if (const auto headcount = pod.label("sharedgpu/group_headcount")) {
    DIVVY_TRY(size, whole_number(*headcount, model::Request::kMaxGangSize));
    gang.size = static_cast<std::uint32_t>(size);
  }
  if (const auto threshold = pod.label("sharedgpu/group_threshold")) {
    DIVVY_TRY(part, share_in(*threshold));
    const std::uint64_t of_all = std::uint64_t{gang.size} * part.thousandths();
    gang.least = static_cast<std::uint32_t>((of_all + Share::kWhole - 1) / Share::kWhole);
  }
  reading.gang = std::move(gang);
  return {};
}

Result<Reading> read_kubeshare(const PodView& pod, const DialectPolicy& /*policy*/) {
  Reading reading;
  DIVVY_TRY(asked, kubeshare_asked(pod, reading));
  DIVVY_TRY(containers, named_containers(pod, "divvy.dev/container"));
  for (const PodContainer* container : containers) {
    reading.asks.push_back({container, asked, *kubeshare_spoken(pod, {})});
  }
  if (const auto model = pod.label("sharedgpu/gpu_model")) {
    DIVVY_TRY(models, comma_list(*model));
    reading.models = std::move(models);
  }
  if (const auto priority = pod.label("sharedgpu/priority")) {
    DIVVY_TRY(number, whole_number(*priority, 100));
    reading.priority = static_cast<std::int32_t>(number);
  }
  DIVVY_RETURN_IF_ERROR(read_kubeshare_group(pod, reading));
  return reading;
}

}  // namespace

constinit const Dialect kAliyunDialect{"aliyun", kAliyunResources, {}, aliyun_spoken, read_aliyun};
constinit const Dialect kTencentDialect{
    "tencent", kTencentResources, {}, tencent_spoken, read_tencent};
constinit const Dialect kKubeShareDialect{
    "kubeshare", {}, kKubeShareSchedulers, kubeshare_spoken, read_kubeshare};

}  // namespace divvy::kube
