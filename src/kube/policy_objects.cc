#include "kube/policy_objects.h"

#include <algorithm>
#include <boost/json.hpp>

#include "base/text.h"
#include "kube/accepted_condition.h"
#include "kube/json_view.h"
#include "kube/namespace_policy.h"

namespace divvy::kube {
namespace {

namespace json = boost::json;

// A share is in thousandths.
constexpr std::uint64_t kMostReplicas = 1000;
// Names of namespaces in a message.
constexpr std::size_t kMostShown = 5;

std::vector<std::string> texts_at(const json::object& from,
                                  std::initializer_list<std::string_view> path) {
  std::vector<std::string> texts;
  for (const json::value& one : array_at(from, path)) {
    if (one.is_string()) texts.emplace_back(one.get_string());
  }
  return texts;
}

template <typename T, typename Parse>
Status read_word(const json::object& from, const char* field, Parse parse, std::optional<T>& into) {
  const std::string_view text = text_at(from, {field});
  if (text.empty()) return {};
  DIVVY_TRY(value, with_context(parse(text), field));
  into = value;
  return {};
}

Status read_dialects(const json::object& spec, PolicyObject& policy) {
  const json::object& from = object_at(spec, {"dialects"});
  DIVVY_RETURN_IF_ERROR(read_word(from, "nvidiaGpus", parse_nvidia_gpus, policy.nvidia_gpus));
  if (const auto replicas = number_at(from, {"replicasPerGpu"})) {
    if (*replicas == 0 || *replicas > kMostReplicas) {
      return err(ErrorCode::kOutOfRange, "replicasPerGpu: write 1 to {}", kMostReplicas);
    }
    policy.replicas_per_gpu = static_cast<std::uint32_t>(*replicas);
  }
  if (policy.nvidia_gpus == NvidiaGpus::kReplicas && !policy.replicas_per_gpu) {
    return err(ErrorCode::kInvalidArgument,
               "nvidiaGpus: replicas of how many? write it in replicasPerGpu");
  }
  if (from.contains("leftAlone")) {
    std::vector<std::string> names = texts_at(from, {"leftAlone"});
    for (const std::string& name : names) {
      DIVVY_TRY(known, with_context(parse_dialects(name), "leftAlone"));
      if (known.size() != 1) {
        return err(ErrorCode::kInvalidArgument, "leftAlone: \"{}\" is no name of a dialect",
                   escape_for_terminal(name.substr(0, 60)));
      }
    }
    policy.left_alone = std::move(names);
  }
  return {};
}

Status read_defaults(const json::object& spec, PolicyObject& policy) {
  const json::object& placement = object_at(spec, {"placement"});
  PodDefaults& defaults = policy.defaults;
  defaults.models = texts_at(placement, {"models"});
  defaults.models_denied = texts_at(placement, {"notModels"});
  DIVVY_RETURN_IF_ERROR(with_context(
      read_word(placement, "topology", model::parse_topology_preference, defaults.topology),
      "placement"));
  const json::object& sharing = object_at(spec, {"sharing"});
  DIVVY_RETURN_IF_ERROR(
      with_context(read_word(sharing, "mode", model::parse_gpu_mode, defaults.mode), "sharing"));
  DIVVY_RETURN_IF_ERROR(with_context(
      read_word(sharing, "class", model::parse_job_class, defaults.job_class), "sharing"));
  if (sharing.contains("cap")) defaults.cap = true_at(sharing, {"cap"});
  return {};
}

Status read_spec(const json::object& spec, PolicyObject& policy) {
  policy.namespaces = texts_at(spec, {"namespaces"});
  for (const auto& one : object_at(spec, {"namespaceLabels"})) {
    if (one.value().is_string()) policy.labels.emplace(one.key(), one.value().get_string());
  }
  if (policy.namespaces.empty() && policy.labels.empty()) {
    return err(ErrorCode::kInvalidArgument,
               "it is about no namespace; name some in namespaces, or labels in namespaceLabels");
  }
  if (spec.contains("movable")) policy.movable = true_at(spec, {"movable"});
  DIVVY_RETURN_IF_ERROR(with_context(read_dialects(spec, policy), "dialects"));
  return read_defaults(spec, policy);
}

}  // namespace

int PolicyObject::weight_for(const json::object& name_space) const {
  const std::string_view name = text_at(name_space, {"metadata", "name"});
  if (std::ranges::find(namespaces, name) != namespaces.end()) return 2;
  if (labels.empty()) return 0;
  const json::object& has = object_at(name_space, {"metadata", "labels"});
  const bool all = std::ranges::all_of(labels, [&has](const auto& label) {
    return text_at(has, {label.first}) == label.second && has.contains(label.first);
  });
  return all ? 1 : 0;
}

DialectPolicy PolicyObject::over(DialectPolicy usual) const {
  if (nvidia_gpus) usual.nvidia_gpus = *nvidia_gpus;
  if (replicas_per_gpu) usual.replicas_per_gpu = *replicas_per_gpu;
  if (left_alone) usual.left_alone = *left_alone;
  usual.defaults = defaults;
  return usual;
}

Result<PolicyObject> read_policy(const json::object& document) {
  DIVVY_TRY(object, read_object(document));
  PolicyObject policy{.object = std::move(object)};
  policy.generation = number_at(document, {"metadata", "generation"}).value_or(0);
  policy.status = object_at(document, {"status"});
  const Status read = with_context(read_spec(object_at(document, {"spec"}), policy), "spec");
  if (!read) policy.problem = read.error().message;
  return policy;
}

const PolicyObject* find_policy(const PolicyObjects& policies, const json::object& name_space) {
  const PolicyObject* found = nullptr;
  int best = 0;
  for (const auto& [name, policy] : policies) {
    if (!policy.problem.empty()) continue;
    const int weight = policy.weight_for(name_space);
    if (weight <= best) continue;
    best = weight;
    found = &policy;
  }
  return found;
}

json::object policy_status(const PolicyObject& policy, std::size_t holds_for,
                           const std::vector<std::string>& shadowed, WallTime now) {
  std::string message = "its settings hold";
  std::string reason = "Holds";
  if (!policy.problem.empty()) {
    reason = "Refused";
    message = policy.problem;
  } else if (!shadowed.empty()) {
    reason = "HoldsInPart";
    const std::size_t shown = std::min(shadowed.size(), kMostShown);
    message = fmt::format(
        "another policy holds for {}{}",
        fmt::join(shadowed.begin(), shadowed.begin() + static_cast<std::ptrdiff_t>(shown), ", "),
        shown < shadowed.size() ? " and others" : "");
  }
  return {{"observedGeneration", policy.generation},
          {"namespaces", holds_for},
          {"conditions",
           accepted_condition(policy.status, policy.problem.empty(), reason, message, now)}};
}

}  // namespace divvy::kube
