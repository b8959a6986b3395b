#include "kube_api/submit_documents.h"

#include <boost/json.hpp>

#include "base/text.h"
#include "kube_api/cluster_jobs.h"
#include "model/seconds.h"
#include "model/session_label.h"

namespace divvy::kube_api {
namespace {

namespace json = boost::json;

constexpr std::string_view kContainer = "main";
// With five letters behind it, and the index that Kubernetes puts behind that, it is still a label.
constexpr std::size_t kLongestName = 40;
// Of rank 0; the pods have an address each, so that it need not be another for each job.
constexpr int kMasterPort = 29500;
// A Job that has ended is kept for so long: that is all that remembers it.
constexpr std::int64_t kKeptSeconds = 7 * 24 * 3600;

tl::unexpected<Error> cannot(std::string_view field, std::string_view what) {
  return err(ErrorCode::kUnsupported, "{}: {}", field, what);
}

Status check_can_be_pods(const model::JobSpec& spec) {
  if (!spec.container || spec.container->image.empty()) {
    return err(ErrorCode::kInvalidArgument,
               "container.image: on a cluster a job runs in an image: divvy submit --image IMAGE");
  }
  if (spec.request.share() == Share(0) && !spec.request.memory()) {
    return cannot("gpu", "a job without a GPU needs nothing of Divvy's: kubectl create job");
  }
  if (spec.mode) {
    return cannot("mode", "on a cluster it is set for a namespace; leave it out");
  }
  if (!spec.container->mounts.empty()) {
    return cannot("container.mounts",
                  "a cluster has no folders of this machine; write a Job with a volume, and ask "
                  "for the GPU with the annotation divvy.dev/gpu");
  }
  if (!spec.container->ports.empty()) {
    return cannot("container.ports", "pods have addresses of their own; leave it out");
  }
  if (spec.array) {
    return cannot("array",
                  "not on a cluster yet; submit the tasks one by one, or write an Indexed "
                  "Job with the annotation divvy.dev/gpu");
  }
  if (!spec.after.empty()) {
    return cannot("after", "not on a cluster yet; `divvy wait` waits for another job");
  }
  if (spec.least_members != 0 && spec.least_members != spec.members()) {
    return cannot("least_members", "the pods of a Job start all together; leave it out");
  }
  if (!spec.devices.empty()) {
    return cannot("devices", "on a cluster GPUs are chosen by their model; use --model");
  }
  if (spec.limits.pids || !spec.limits.ulimits.empty()) {
    return cannot(spec.limits.pids ? "limits.pids" : "limits.ulimits",
                  "nodes set it for their pods; leave it out");
  }
  if (spec.notify) return cannot("notify", "not on a cluster yet; watch the Job there");
  if (spec.keep_input) return cannot("keep_input", "use `kubectl run -i`");
  if (spec.minimum_run != model::Seconds(0)) {
    return cannot("minimum_run", "not on a cluster yet; preemptible: false keeps the job whole");
  }
  const model::Where& where = spec.where;
  if (!where.nodes.empty() || !where.nodes_denied.empty() || !where.tolerations.empty() ||
      where.spread) {
    return cannot("where", "on a cluster node_labels, gpus_near and members_near can be asked for");
  }
  if (where.gpus_near.closeness != model::Closeness::kAnywhere &&
      where.gpus_near.closeness != model::Closeness::kNuma &&
      where.gpus_near.closeness != model::Closeness::kNvlink) {
    return cannot("where.gpus_near", "on a cluster it is numa or nvlink");
  }
  return {};
}

std::string listed(const std::vector<std::string>& words) {
  return fmt::format("{}", fmt::join(words, ","));
}

// As a person would write them into a pod.
json::object annotations_of(const model::JobSpec& spec) {
  json::object annotations;
  const model::Request& request = spec.request;
  if (request.share() != Share(0)) annotations["divvy.dev/gpu"] = to_string(request.share());
  if (request.memory()) {
    annotations["divvy.dev/gpu-memory"] = std::to_string(request.memory()->count());
  }
  if (request.kind() == model::ShareKind::kCap) annotations["divvy.dev/cap"] = "true";
  if (spec.job_class != model::JobClass::kBatch) {
    annotations["divvy.dev/class"] = to_string(spec.job_class);
  }
  if (!request.allowed_models().empty()) {
    annotations["divvy.dev/model"] = listed(request.allowed_models());
  }
  if (!request.denied_models().empty()) {
    annotations["divvy.dev/not-model"] = listed(request.denied_models());
  }
  if (request.topology() != model::TopologyPreference::kAny) {
    annotations["divvy.dev/topology"] = to_string(request.topology());
  } else if (spec.where.gpus_near.closeness != model::Closeness::kAnywhere) {
    annotations["divvy.dev/topology"] = to_string(spec.where.gpus_near.closeness);
  }
  if (spec.where.members_near.closeness != model::Closeness::kAnywhere) {
    annotations["divvy.dev/gang-near"] =
        fmt::format("{}{}", to_string(spec.where.members_near.closeness),
                    spec.where.members_near.required ? "" : ", preferred");
  }
  if (spec.queue != "default") annotations["divvy.dev/queue"] = spec.queue;
  if (spec.priority != 0) annotations["divvy.dev/priority"] = std::to_string(spec.priority);
  annotations["divvy.dev/preemptible"] = spec.preemptible ? "true" : "false";
  return annotations;
}

json::object labels_of(const model::JobSpec& spec, const JobNames& names) {
  json::object labels;
  for (const auto& [name, value] : spec.labels) labels[name] = value;
  labels[kJobLabel] = names.name;
  if (!spec.name.empty() && spec.name.size() <= 63) labels[kNameLabel] = spec.name;
  return labels;
}

// Kubernetes puts variables in the place of $(NAME); what was typed is what is meant.
std::string verbatim(std::string_view text) {
  std::string result;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text.substr(i, 2) == "$(" || text.substr(i, 2) == "$$") result += '$';
    result += text[i];
  }
  return result;
}

json::object variable(std::string_view name, std::string_view value) {
  return {{"name", name}, {"value", verbatim(value)}};
}

// Of a Secret of the namespace, under the name of the variable.
json::object secret_variable(std::string_view name, std::string_view secret) {
  return {
      {"name", name},
      {"valueFrom", json::object{{"secretKeyRef", json::object{{"name", secret}, {"key", name}}}}}};
}

json::object index_variable(std::string_view name) {
  json::object field{
      {"fieldPath", "metadata.annotations['batch.kubernetes.io/job-completion-index']"}};
  return {{"name", name}, {"valueFrom", json::object{{"fieldRef", std::move(field)}}}};
}

// What launchers look for, as members of a gang have it on one machine; a pod is a host.
json::array environment_of(const model::JobSpec& spec, const JobNames& names) {
  json::array variables;
  if (spec.members() > 1) {
    const std::string size = std::to_string(spec.members());
    variables.push_back(variable("MASTER_ADDR", fmt::format("{0}-0.{0}", names.name)));
    variables.push_back(variable("MASTER_PORT", std::to_string(kMasterPort)));
    variables.push_back(variable("WORLD_SIZE", size));
    variables.push_back(variable("GROUP_WORLD_SIZE", size));
    variables.push_back(variable("LOCAL_RANK", "0"));
    variables.push_back(variable("LOCAL_WORLD_SIZE", "1"));
    for (const char* const name : {"RANK", "NODE_RANK", "GROUP_RANK"}) {
      variables.push_back(index_variable(name));
    }
  }
  // The last of a name counts: what somebody sets themselves.
  const bool hidden = spec.labels.contains(std::string(model::kSessionLabel));
  for (const auto& [name, value] : spec.environment) {
    variables.push_back(hidden ? secret_variable(name, names.name) : variable(name, value));
  }
  for (const auto& [name, secret] : spec.secrets) {
    variables.push_back(secret_variable(name, secret));
  }
  return variables;
}

json::object container_of(const model::JobSpec& spec, const JobNames& names) {
  json::object container{{"name", kContainer}, {"image", spec.container->image}};
  const auto list = [](const std::vector<std::string>& words) {
    json::array array;
    for (const std::string& word : words) array.emplace_back(verbatim(word));
    return array;
  };
  if (spec.container->entry_point) container["command"] = list(*spec.container->entry_point);
  if (!spec.command.empty()) container["args"] = list(spec.command);
  if (!spec.working_directory.empty()) container["workingDir"] = spec.working_directory;
  container["env"] = environment_of(spec, names);
  json::object limits;
  if (spec.limits.cpu_milli) limits["cpu"] = fmt::format("{}m", *spec.limits.cpu_milli);
  if (spec.limits.ram) limits["memory"] = std::to_string(spec.limits.ram->count());
  if (!limits.empty()) container["resources"] = json::object{{"limits", std::move(limits)}};
  if (spec.limits.shm) {
    container["volumeMounts"] =
        json::array{json::object{{"name", "shm"}, {"mountPath", "/dev/shm"}}};
  }
  return container;
}

json::object pod_spec(const model::JobSpec& spec, const JobNames& names) {
  json::object pod{{"restartPolicy", "Never"},
                   {"terminationGracePeriodSeconds", spec.grace.count()},
                   {"containers", json::array{container_of(spec, names)}}};
  // From its start on, as everywhere: a Job's own limit would count the time in the queue.
  if (spec.time_limit) pod["activeDeadlineSeconds"] = spec.time_limit->count();
  if (spec.members() > 1) pod["subdomain"] = names.name;
  if (!spec.where.node_labels.empty()) {
    json::object selector;
    for (const auto& [name, value] : spec.where.node_labels) selector[name] = value;
    pod["nodeSelector"] = std::move(selector);
  }
  if (spec.limits.shm) {
    json::object memory{{"medium", "Memory"},
                        {"sizeLimit", std::to_string(spec.limits.shm->count())}};
    pod["volumes"] = json::array{json::object{{"name", "shm"}, {"emptyDir", std::move(memory)}}};
  }
  return pod;
}

// Of what belongs to the Job and goes with it.
json::object metadata_of_part(const JobNames& names, const std::string& uid) {
  json::object owner{
      {"apiVersion", "batch/v1"}, {"kind", "Job"}, {"name", names.name}, {"uid", uid}};
  return {{"name", names.name},
          {"namespace", names.space},
          {"labels", json::object{{kJobLabel, names.name}}},
          {"ownerReferences", json::array{std::move(owner)}}};
}

}  // namespace

std::string object_name(const model::JobSpec& spec, const std::string& suffix) {
  std::string name;
  for (const char c : to_lower(spec.name.empty() ? "job" : spec.name)) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
    if (plain) name += c;
    if (!plain && !name.empty() && !name.ends_with('-')) name += '-';
    if (name.size() == kLongestName) break;
  }
  while (name.ends_with('-')) name.pop_back();
  // The name of a Service begins with a letter.
  if (name.empty() || name.front() < 'a') name.insert(0, "job-");
  return name + "-" + suffix;
}

Result<json::object> batch_job(const model::JobSpec& spec, const JobNames& names) {
  DIVVY_RETURN_IF_ERROR(check_can_be_pods(spec));
  json::object metadata{
      {"name", names.name}, {"namespace", names.space}, {"labels", labels_of(spec, names)}};
  if (!names.fingerprint.empty()) {
    metadata["annotations"] = json::object{{kFingerprintAnnotation, names.fingerprint}};
  }
  json::object pods{{"metadata", json::object{{"labels", labels_of(spec, names)},
                                              {"annotations", annotations_of(spec)}}},
                    {"spec", pod_spec(spec, names)}};
  // Whoever makes way, or whose node is lost, did not fail.
  json::object disrupted{{"action", "Ignore"},
                         {"onPodConditions", json::array{json::object{{"type", "DisruptionTarget"},
                                                                      {"status", "True"}}}}};
  return json::object{
      {"apiVersion", "batch/v1"},
      {"kind", "Job"},
      {"metadata", std::move(metadata)},
      {"spec", json::object{
                   {"completionMode", "Indexed"},
                   {"completions", spec.members()},
                   {"parallelism", spec.members()},
                   {"backoffLimit", spec.retry.most},
                   {"ttlSecondsAfterFinished", kKeptSeconds},
                   {"podFailurePolicy", json::object{{"rules", json::array{std::move(disrupted)}}}},
                   {"template", std::move(pods)}}}};
}

std::optional<json::object> session_secret(const model::JobSpec& spec, const JobNames& names,
                                           const std::string& uid) {
  if (!spec.labels.contains(std::string(model::kSessionLabel))) return std::nullopt;
  json::object values;
  for (const auto& [name, value] : spec.environment) values[name] = value;
  return json::object{{"apiVersion", "v1"},
                      {"kind", "Secret"},
                      {"metadata", metadata_of_part(names, uid)},
                      {"type", "Opaque"},
                      {"stringData", std::move(values)}};
}

std::optional<json::object> rank_service(const model::JobSpec& spec, const JobNames& names,
                                         const std::string& uid) {
  if (spec.members() == 1) return std::nullopt;
  return json::object{{"apiVersion", "v1"},
                      {"kind", "Service"},
                      {"metadata", metadata_of_part(names, uid)},
                      // Ranks look for each other before they are ready.
                      {"spec", json::object{{"clusterIP", "None"},
                                            {"publishNotReadyAddresses", true},
                                            {"selector", json::object{{kJobLabel, names.name}}}}}};
}

}  // namespace divvy::kube_api
