#include "kube/pod_request.h"

#include <algorithm>
#include <array>

#include "base/text.h"
#include "kube/dialect.h"
#include "kube/pod_treatment.h"

namespace divvy::kube {
namespace {

constexpr std::array<std::string_view, 3> kNvidiaNames{"leave", "whole", "replicas"};

constexpr std::array<const Dialect*, 9> kDialects{
    &kDivvyDialect,   &kNvidiaDialect, &kNvidiaReplicasDialect, &kHamiDialect,     &kKaiDialect,
    &kVolcanoDialect, &kAliyunDialect, &kTencentDialect,        &kKubeShareDialect};

// The one dialect that the pod speaks; nullptr: none.
Result<const Dialect*> dialect_of(const PodView& pod, const DialectPolicy& policy) {
  const Dialect* found = nullptr;
  std::string found_field;
  for (const Dialect* dialect : kDialects) {
    if (std::ranges::find(policy.left_alone, dialect->name) != policy.left_alone.end()) continue;
    auto field = dialect->spoken(pod, policy);
    if (!field) continue;
    if (found != nullptr) {
      return refuse(*field, fmt::format("{} asks for GPUs too, in another dialect ({} and {}); "
                                        "leave one of them out",
                                        found_field, found->name, dialect->name));
    }
    found = dialect;
    found_field = *std::move(field);
  }
  return found;
}

std::string words(const Asked& asked) {
  std::string text = asked.share == Share(0) ? "" : fmt::format("{} GPU", asked.share);
  if (asked.memory) text += fmt::format("{}{}", text.empty() ? "" : " with ", *asked.memory);
  return text + (asked.cap ? ", capped" : "");
}

// All slices of a pod are members of one job, and those are alike.
Status check_alike(const std::vector<ContainerAsk>& asks) {
  const ContainerAsk& first = asks.front();
  for (const ContainerAsk& ask : asks) {
    if (ask.asked == first.asked) continue;
    return refuse(
        ask.field,
        fmt::format("container {} asks for {} and container {} for {}; containers of one "
                    "pod get slices of one size: ask for the same, or make two pods",
                    escape_for_terminal(ask.container->name.substr(0, 63)), words(ask.asked),
                    escape_for_terminal(first.container->name.substr(0, 63)), words(first.asked)));
  }
  return {};
}

// Init containers are over when the main ones start: they use the slice of the first of those. The
// first slice is an init container's where no main container asks.
void share_out(const std::vector<ContainerAsk>& asks, PodRequest& request) {
  const auto take = [&](ContainerKind kind, std::vector<std::string>& into) {
    for (const ContainerAsk& ask : asks) {
      if (ask.container->kind == kind) into.push_back(ask.container->name);
    }
  };
  take(ContainerKind::kMain, request.containers);
  take(ContainerKind::kInit, request.init_containers);
  if (request.containers.empty() && !request.init_containers.empty()) {
    request.containers.push_back(request.init_containers.front());
    request.init_containers.erase(request.init_containers.begin());
  }
  take(ContainerKind::kSidecar, request.containers);
}

// What the namespace's policy says, where the pod says nothing.
void apply_defaults(const PodView& pod, const PodDefaults& defaults, Reading& reading) {
  if (reading.models.empty()) reading.models = defaults.models;
  for (const std::string& model : defaults.models_denied) {
    if (std::ranges::find(reading.models_denied, model) == reading.models_denied.end()) {
      reading.models_denied.push_back(model);
    }
  }
  const bool near = reading.gpus_near != model::Near{};
  if (defaults.topology && !near && reading.topology == model::TopologyPreference::kAny &&
      !pod.annotation("divvy.dev/topology")) {
    reading.topology = *defaults.topology;
  }
  if (!reading.job_class) reading.job_class = defaults.job_class;
  const Asked& asked = reading.asks.front().asked;
  // Whole GPUs are nobody's to share.
  const bool part = asked.share < Share::whole_gpus(1);
  if (!reading.mode && part) reading.mode = defaults.mode;
  if (defaults.cap && part && !pod.annotation("divvy.dev/cap")) {
    for (ContainerAsk& ask : reading.asks) ask.asked.cap = ask.asked.cap || *defaults.cap;
  }
}

Result<model::Request> request_of(const Reading& reading, std::uint32_t members) {
  const Asked& asked = reading.asks.front().asked;
  return model::Request::create({
      .share = asked.share,
      .memory = asked.memory,
      .kind = asked.cap ? model::ShareKind::kCap : model::ShareKind::kGuarantee,
      .allowed_models = reading.models,
      .denied_models = reading.models_denied,
      .topology = reading.topology,
      .gang_size = members,
  });
}

Result<model::JobSpec> spec_of(const Reading& reading, const DialectPolicy& policy) {
  const std::string& field = reading.asks.front().field;
  DIVVY_TRY(request, with_context(request_of(reading, 1), field));
  model::JobSpec spec(std::move(request));
  spec.queue = policy.queue;
  if (reading.queue) {
    DIVVY_RETURN_IF_ERROR(
        with_context(model::check_queue_path(reading.queue->text), reading.queue->field));
    spec.queue = std::string(reading.queue->text);
  }
  spec.devices = reading.devices;
  spec.where.gpus_near = reading.gpus_near;
  spec.where.members_near = reading.members_near;
  spec.job_class = reading.job_class.value_or(model::JobClass::kBatch);
  spec.priority = reading.priority.value_or(0);
  spec.preemptible = reading.preemptible.value_or(true);
  spec.mode = reading.mode;
  spec.holder = model::Holder::kSlice;
  // As one container's, for a job of several members is not held by containers on one machine.
  DIVVY_RETURN_IF_ERROR(with_context(model::check(spec), field));
  return spec;
}

Status check_gang(const std::optional<PodGang>& gang) {
  if (!gang) return {};
  const std::string_view name = gang->name;
  if (name.empty() || name.size() > 253 || escape_for_terminal(name) != name) {
    return refuse("metadata", fmt::format("\"{}\" is no name of a gang",
                                          escape_for_terminal(name.substr(0, 60))));
  }
  return {};
}

}  // namespace

std::vector<std::string_view> dialect_names() {
  std::vector<std::string_view> names;
  names.reserve(kDialects.size());
  for (const Dialect* dialect : kDialects) names.push_back(dialect->name);
  return names;
}

std::string_view to_string(NvidiaGpus meaning) {
  return kNvidiaNames[static_cast<std::size_t>(meaning)];
}

Result<NvidiaGpus> parse_nvidia_gpus(std::string_view text) {
  const auto* const found = std::ranges::find(kNvidiaNames, to_lower(trim(text)));
  if (found != kNvidiaNames.end()) return static_cast<NvidiaGpus>(found - kNvidiaNames.begin());
  return err(ErrorCode::kInvalidArgument, "\"{}\" is no meaning of nvidia.com/gpu; write {}",
             escape_for_terminal(text.substr(0, 60)), fmt::join(kNvidiaNames, " or "));
}

std::string_view to_string(Way way) { return way == Way::kSlots ? "slots" : "claims"; }

Result<Way> parse_way(std::string_view text) {
  for (const Way way : {Way::kClaims, Way::kSlots}) {
    if (text == to_string(way)) return way;
  }
  return err(ErrorCode::kInvalidArgument,
             "\"{}\" is no way in which pods get their slices; write claims or slots",
             escape_for_terminal(text.substr(0, 60)));
}

Result<std::optional<PodRequest>> read_pod_request(const boost::json::object& pod,
                                                   const DialectPolicy& policy) {
  DIVVY_TRY(view, PodView::create(pod));
  DIVVY_RETURN_IF_ERROR(check_known_annotations(view));
  DIVVY_TRY(dialect, dialect_of(view, policy));
  if (dialect == nullptr) return std::nullopt;
  DIVVY_TRY(reading, dialect->read(view, policy));
  if (reading.asks.empty()) return std::nullopt;
  DIVVY_RETURN_IF_ERROR(read_treatment(view, reading));
  apply_defaults(view, policy.defaults, reading);
  DIVVY_RETURN_IF_ERROR(check_alike(reading.asks));
  DIVVY_RETURN_IF_ERROR(check_gang(reading.gang));
  DIVVY_TRY(spec, spec_of(reading, policy));

  PodRequest request(std::move(spec));
  request.dialect = std::string(dialect->name);
  share_out(reading.asks, request);
  DIVVY_TRY(for_all, request_of(reading, static_cast<std::uint32_t>(request.containers.size())));
  request.spec.request = std::move(for_all);
  request.gang = std::move(reading.gang);
  request.resources.assign(dialect->resources.begin(), dialect->resources.end());
  if (std::ranges::find(dialect->schedulers, view.scheduler()) != dialect->schedulers.end()) {
    request.foreign_scheduler = std::string(view.scheduler());
  }
  request.warnings = std::move(reading.warnings);
  return request;
}

}  // namespace divvy::kube
