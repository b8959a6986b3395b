#include "kube_api/cluster_jobs.h"

#include <algorithm>
#include <boost/json.hpp>
#include <map>
#include <optional>

#include "base/check.h"
#include "kube/claim_request.h"
#include "kube/cluster_objects.h"
#include "kube/json_view.h"
#include "kube/object_names.h"
#include "kube/time_stamp.h"

namespace divvy::kube_api {
namespace {

namespace json = boost::json;
using kube::array_at;
using kube::object_at;
using kube::text_at;
using kube::true_at;
using model::JobState;

// Enough that two of ten thousand jobs hardly ever have the same, and still to be typed.
constexpr std::uint64_t kIdMask = (std::uint64_t{1} << 36U) - 1;

// The same for the same text, on every machine and for ever (FNV-1a).
model::JobId id_of(std::string_view key) {
  std::uint64_t hash = 0xcbf29ce484222325U;
  for (const char c : key) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3U;
  const std::uint64_t id = (hash ^ (hash >> 36U)) & kIdMask;
  return model::JobId(id == 0 ? 1 : id);
}

std::optional<WallTime> time_at(const json::object& object,
                                std::initializer_list<std::string_view> path) {
  return kube::read_time_stamp(text_at(object, path));
}

void keep_latest(std::optional<WallTime>& latest, const std::optional<WallTime>& one) {
  if (one && (!latest || *one > *latest)) latest = one;
}

const json::object& condition(const json::object& object, std::string_view type) {
  static const json::object kNone;
  for (const json::value& one : array_at(object, {"status", "conditions"})) {
    const json::object* const found = one.if_object();
    if (found != nullptr && text_at(*found, {"type"}) == type) return *found;
  }
  return kNone;
}

bool holds(const json::object& object, std::string_view type) {
  return text_at(condition(object, type), {"status"}) == "True";
}

std::string_view label(const json::object& object, std::string_view name) {
  return text_at(object, {"metadata", "labels", name});
}

struct Maker {
  std::string kind;
  std::string name;
};
// Who makes a pod anew when it goes. A ReplicaSet is made by a Deployment, and people know that.
Maker maker_of(const json::object& pod) {
  for (const json::value& one : array_at(pod, {"metadata", "ownerReferences"})) {
    const json::object* const owner = one.if_object();
    if (owner == nullptr || !true_at(*owner, {"controller"})) continue;
    Maker maker{std::string(text_at(*owner, {"kind"})), std::string(text_at(*owner, {"name"}))};
    const std::string suffix = fmt::format("-{}", label(pod, "pod-template-hash"));
    if (maker.kind == "ReplicaSet" && suffix.size() > 1 && maker.name.ends_with(suffix)) {
      maker.kind = "Deployment";
      maker.name.resize(maker.name.size() - suffix.size());
    }
    return maker;
  }
  return {};
}

enum class Phase { kWaits, kStarts, kRuns, kStops, kSucceeded, kFailed };

struct Pod {
  Pod(const json::object& document_, kube::PodFacts facts_)
      : document(&document_), facts(std::move(facts_)) {}

  const json::object* document;
  kube::PodFacts facts;
  std::vector<std::string> containers = {};
  std::optional<kube::Allocation> allocation = {};
  Phase phase = Phase::kWaits;

  [[nodiscard]] bool ended() const { return phase == Phase::kSucceeded || phase == Phase::kFailed; }
  [[nodiscard]] kube::GangRank rank() const {
    return facts.gang ? facts.gang->rank : kube::GangRank{};
  }
};

struct Group {
  std::vector<Pod> pods;
  const json::object* batch = nullptr;  // the Job of `divvy submit`
};

using Claims = std::map<std::string, kube::ClaimFacts>;

Claims claims_of(const std::vector<json::object>& documents) {
  Claims claims;
  for (const json::object& document : documents) {
    auto facts = kube::read_claim(document);
    if (!facts || !*facts) continue;
    const std::string key = (*facts)->object.key();
    claims.insert_or_assign(key, **std::move(facts));
  }
  return claims;
}

Phase phase_of(const Pod& pod) {
  if (pod.facts.ended) return pod.facts.succeeded ? Phase::kSucceeded : Phase::kFailed;
  if (pod.facts.deleting) return Phase::kStops;
  if (pod.facts.gate || pod.facts.gated_by_others) return Phase::kWaits;
  if (text_at(*pod.document, {"status", "phase"}) == "Running") return Phase::kRuns;
  return pod.allocation ? Phase::kStarts : Phase::kWaits;
}

// Nothing: no pod of Divvy's.
std::optional<Pod> read_pod(const json::object& document, const Claims& claims) {
  auto facts = kube::read_pod(document);
  if (!facts || !*facts) return std::nullopt;
  Pod pod(document, **std::move(facts));
  if (!pod.facts.refers_to.empty()) {
    // Nobody but the claim says what it asks for.
    const auto claim = std::ranges::find_if(pod.facts.refers_to, [&](const std::string& name) {
      const auto found = claims.find(pod.facts.object.space + "/" + name);
      return found != claims.end() && found->second.by_hand;
    });
    if (claim == pod.facts.refers_to.end()) return std::nullopt;
    const kube::ClaimFacts& found = claims.at(pod.facts.object.space + "/" + *claim);
    auto request = kube::read_claim_request(found.document, {});
    if (request && !*request) return std::nullopt;
    if (request) {
      pod.facts.request = **std::move(request);
    } else {
      pod.facts.request = err(request.error());
    }
    pod.facts.claim = *claim;
    const json::array& containers = array_at(document, {"spec", "containers"});
    if (!containers.empty() && containers.front().is_object()) {
      pod.containers = {std::string(text_at(containers.front().get_object(), {"name"}))};
    }
  } else if (pod.facts.request) {
    pod.containers = pod.facts.request->containers;
  }
  if (pod.containers.empty()) pod.containers = {""};
  pod.allocation = pod.facts.allocation;
  if (const auto claim = claims.find(pod.facts.object.space + "/" + pod.facts.claim);
      !pod.facts.claim.empty() && claim != claims.end()) {
    pod.allocation = claim->second.allocation;
  }
  pod.phase = phase_of(pod);
  // Who may not see claims still sees that it has left the queue.
  if (pod.phase == Phase::kWaits && !pod.facts.node.empty() && !pod.facts.gate && claims.empty()) {
    pod.phase = Phase::kStarts;
  }
  return pod;
}

const json::object& container_status(const json::object& pod, std::string_view name) {
  static const json::object kNone;
  for (const json::value& one : array_at(pod, {"status", "containerStatuses"})) {
    const json::object* const status = one.if_object();
    if (status != nullptr && text_at(*status, {"name"}) == name) return *status;
  }
  return kNone;
}

const json::object& container_of(const json::object& pod, std::string_view name) {
  static const json::object kNone;
  for (const json::value& one : array_at(pod, {"spec", "containers"})) {
    const json::object* const container = one.if_object();
    if (container != nullptr && (name.empty() || text_at(*container, {"name"}) == name)) {
      return *container;
    }
  }
  return kNone;
}

// "Evicted: The node was low on resource: memory"
std::string pod_reason(const json::object& pod) {
  std::string reason(text_at(pod, {"status", "reason"}));
  const std::string_view message = text_at(pod, {"status", "message"});
  if (!message.empty()) reason += (reason.empty() ? "" : ": ") + std::string(message);
  return reason;
}

std::optional<model::MemberEnd> end_of(const Pod& pod, const std::string& container) {
  if (!pod.ended()) return std::nullopt;
  const json::object& ended =
      object_at(container_status(*pod.document, container), {"state", "terminated"});
  model::MemberEnd end;
  end.at = time_at(ended, {"finishedAt"}).value_or(pod.facts.object.created);
  const auto small = [&ended](std::string_view name) {
    return static_cast<int>(kube::number_at(ended, {name}).value_or(0) & 0xffU);
  };
  end.exit_code = small("exitCode");
  end.signal = small("signal");
  end.reason = pod_reason(*pod.document);
  const std::string_view why = text_at(ended, {"reason"});
  if (end.reason.empty() && why != "Completed" && why != "Error") end.reason = why;
  // It ended before any of its containers did.
  if (ended.empty() && pod.phase == Phase::kFailed) end.exit_code = 1;
  return end;
}

std::optional<WallTime> started_at(const Pod& pod, const std::string& container) {
  const json::object& status = container_status(*pod.document, container);
  auto at = time_at(status, {"state", "running", "startedAt"});
  if (!at) at = time_at(status, {"state", "terminated", "startedAt"});
  return at;
}

// Of those that a Job made for one index, the one that counts is the last.
void drop_replaced(std::vector<Pod>& pods) {
  std::ranges::sort(pods, [](const Pod& a, const Pod& b) {
    return std::tuple(a.rank(), a.facts.object.created, a.facts.object.name) <
           std::tuple(b.rank(), b.facts.object.created, b.facts.object.name);
  });
  std::vector<Pod> kept;
  for (Pod& pod : pods) {
    const bool ranked = pod.facts.gang && (pod.facts.gang->kind == kube::GangKind::kJob ||
                                           pod.facts.gang->kind == kube::GangKind::kJobSet);
    if (ranked && !kept.empty() && kept.back().rank() == pod.rank() && kept.back().ended()) {
      kept.back() = std::move(pod);
    } else {
      kept.push_back(std::move(pod));
    }
  }
  pods = std::move(kept);
}

std::vector<std::string> words(const json::object& container) {
  std::vector<std::string> all;
  for (const char* const field : {"command", "args"}) {
    for (const json::value& word : array_at(container, {field})) {
      if (word.is_string()) all.emplace_back(word.get_string());
    }
  }
  return all;
}

model::Request with_members(const model::Request& request, std::size_t members) {
  model::Request::Parts parts{.share = request.share(),
                              .memory = request.memory(),
                              .kind = request.kind(),
                              .allowed_models = request.allowed_models(),
                              .denied_models = request.denied_models(),
                              .topology = request.topology(),
                              .gang_size = static_cast<std::uint32_t>(members)};
  return model::Request::create(std::move(parts)).value_or(request);
}

model::Request whole_gpu() {
  auto request = model::Request::parse("1");
  DIVVY_CHECK(request.has_value(), "{}", request.error().message);
  return *std::move(request);
}

// Labels that somebody gave, without those of the machinery.
std::map<std::string, std::string> labels_of(const json::object& object) {
  std::map<std::string, std::string> labels;
  for (const auto& one : object_at(object, {"metadata", "labels"})) {
    const std::string_view name = one.key();
    const bool machinery = name.find("divvy.dev/") != std::string_view::npos ||
                           name.find("kubernetes.io/") != std::string_view::npos ||
                           name == "controller-uid" || name == "job-name" ||
                           name == "pod-template-hash";
    if (!machinery && one.value().is_string()) {
      labels.emplace(name, std::string(one.value().get_string()));
    }
  }
  return labels;
}

std::size_t member_count(const Group& group) {
  std::size_t members = 0;
  for (const Pod& pod : group.pods) members += pod.containers.size();
  if (group.batch != nullptr) {
    members = std::max<std::size_t>(
        members, kube::number_at(*group.batch, {"spec", "completions"}).value_or(1));
  }
  return std::max<std::size_t>(members, 1);
}

model::JobSpec spec_of(const Group& group, const std::string& name) {
  const json::object* const pod = group.pods.empty() ? nullptr : group.pods.front().document;
  const json::object& made_from =
      group.batch != nullptr ? object_at(*group.batch, {"spec", "template"}) : *pod;
  std::optional<kube::PodRequest> request;
  if (!group.pods.empty() && group.pods.front().facts.request) {
    request = *group.pods.front().facts.request;
  } else if (group.batch != nullptr) {
    const auto asked = kube::read_pod_request(made_from, {});
    if (asked) request = *asked;
  }
  model::JobSpec spec(whole_gpu());
  if (request) spec = request->spec;
  spec.request = with_members(spec.request, member_count(group));
  spec.name = name;
  spec.holder = model::Holder::kPods;
  const json::object& container = container_of(
      made_from, request && !request->containers.empty() ? request->containers.front() : "");
  spec.command = words(container);
  spec.container = model::ContainerSpec{.image = std::string(text_at(container, {"image"})),
                                        .mounts = {},
                                        .ports = {},
                                        .entry_point = std::nullopt};
  spec.labels = labels_of(made_from);
  if (const auto limit = kube::number_at(made_from, {"spec", "activeDeadlineSeconds"})) {
    spec.time_limit = model::Seconds(std::min<std::uint64_t>(*limit, 1U << 30U));
  }
  if (group.batch != nullptr) {
    spec.retry.most = static_cast<std::uint32_t>(
        kube::number_at(*group.batch, {"spec", "backoffLimit"}).value_or(0));
  }
  return spec;
}

JobState state_of(const Group& group) {
  const auto any = [&group](Phase phase) {
    return std::ranges::any_of(group.pods, [phase](const Pod& pod) { return pod.phase == phase; });
  };
  if (group.batch != nullptr) {
    if (holds(*group.batch, "Complete")) return JobState::kSucceeded;
    if (holds(*group.batch, "Failed")) return JobState::kFailed;
    if (!text_at(*group.batch, {"metadata", "deletionTimestamp"}).empty()) {
      return JobState::kStopping;
    }
  }
  if (any(Phase::kRuns)) return JobState::kRunning;
  if (any(Phase::kStops)) return JobState::kStopping;
  if (group.batch != nullptr) {
    // Its pods have ended, and it says so a moment later.
    const auto succeeded =
        static_cast<std::uint64_t>(std::ranges::count(group.pods, Phase::kSucceeded, &Pod::phase));
    if (succeeded >= kube::number_at(*group.batch, {"spec", "completions"}).value_or(1)) {
      return JobState::kSucceeded;
    }
  }
  if (group.batch != nullptr && true_at(*group.batch, {"spec", "suspend"})) {
    return JobState::kSuspended;
  }
  if (any(Phase::kStarts)) return JobState::kStarting;
  if (any(Phase::kWaits) || group.batch != nullptr || group.pods.empty()) return JobState::kQueued;
  return any(Phase::kFailed) ? JobState::kFailed : JobState::kSucceeded;
}

// The index that its Job gave the pod, also while a pod before it is not there; other members are
// counted.
std::uint32_t rank_of(const Pod& pod, bool of_batch, std::size_t members, std::size_t counted) {
  const bool has_index = of_batch && pod.containers.size() == 1 && pod.facts.gang &&
                         pod.facts.gang->kind == kube::GangKind::kJob && pod.rank().index < members;
  return has_index ? pod.rank().index : static_cast<std::uint32_t>(counted);
}

void add_members(const Group& group, ClusterJob& made) {
  model::Job& job = made.job;
  const std::size_t members = member_count(group);
  for (const Pod& pod : group.pods) {
    for (const std::string& container : pod.containers) {
      const std::uint32_t rank = rank_of(pod, group.batch != nullptr, members, made.pods.size());
      const json::object& status = container_status(*pod.document, container);
      const bool runs = !object_at(status, {"state", "running"}).empty();
      made.pods.push_back(
          {.rank = rank,
           .pod = pod.facts.object.name,
           .uid = pod.facts.object.uid,
           .container = container,
           .has_output = runs || !object_at(status, {"state", "terminated"}).empty(),
           .runs = runs});
      const bool placed = pod.phase != Phase::kWaits;
      if (!placed) continue;
      model::JobMember member{.rank = rank, .node = pod.facts.node, .slices = {}, .end = {}};
      if (pod.allocation) {
        member.node = pod.allocation->node;
        for (const kube::AllocatedSlice& one : pod.allocation->slices) {
          if (pod.containers.size() == 1 || one.request == container) {
            member.slices.push_back(one.slice);
          }
        }
      }
      member.end = end_of(pod, container);
      keep_latest(job.started, started_at(pod, container));
      if (member.end) keep_latest(job.ended, member.end->at);
      job.members.push_back(std::move(member));
    }
  }
}

std::string why_it_ended(const Group& group, const model::Job& job) {
  if (group.batch != nullptr) {
    const json::object& failed = condition(*group.batch, "Failed");
    if (text_at(failed, {"status"}) == "True" && job.members.empty()) {
      return std::string(text_at(failed, {"message"}));
    }
  }
  for (const model::JobMember& member : job.members) {
    if (!member.end || member.end->succeeded()) continue;
    std::string text = member.end->signal != 0
                           ? fmt::format("killed by signal {}", member.end->signal)
                           : fmt::format("ended with exit code {}", member.end->exit_code);
    if (!member.end->reason.empty()) text += ": " + member.end->reason;
    return text;
  }
  return "ended";
}

// What Kubernetes still knows of its life.
void add_history(const Group& group, ClusterJob& made) {
  model::Job& job = made.job;
  const std::string by =
      made.owner_kind.empty() ? "submitted" : made.owner_kind + " " + made.owner_name;
  const auto add = [&job](std::optional<WallTime> at, JobState state, std::string reason) {
    if (at) job.history.push_back({std::max(*at, job.submitted), state, std::move(reason)});
  };
  add(job.submitted, JobState::kQueued, made.batch_job.empty() ? by : "submitted");
  std::optional<WallTime> placed;
  std::string nodes;
  for (const Pod& pod : group.pods) {
    if (!pod.allocation || pod.phase == Phase::kWaits) continue;
    keep_latest(placed, pod.allocation->at);
    if (nodes.find(pod.allocation->node) != std::string::npos) continue;
    nodes += (nodes.empty() ? "on " : ", ") + pod.allocation->node;
  }
  add(placed, JobState::kStarting, nodes);
  if (job.started) add(job.started, JobState::kRunning, "started");
  if (model::is_finished(job.state)) {
    if (!job.ended && group.batch != nullptr) {
      job.ended = time_at(condition(*group.batch, "Failed"), {"lastTransitionTime"});
      if (!job.ended) job.ended = time_at(*group.batch, {"status", "completionTime"});
    }
    if (!job.ended) job.ended = job.started ? job.started : std::optional(job.submitted);
    add(job.ended, job.state, job.state == JobState::kSucceeded ? "" : why_it_ended(group, job));
  } else {
    job.ended.reset();
    if (job.state == JobState::kSuspended) {
      add(time_at(condition(*group.batch, "Suspended"), {"lastTransitionTime"})
              .value_or(job.submitted),
          job.state, "suspended");
    }
  }
}

// "Full" is the kind "full", "MakingRoom" is "making-room".
std::string kind_of(std::string_view reason) {
  std::string kind;
  for (const char c : reason) {
    const bool upper = c >= 'A' && c <= 'Z';
    if (upper && !kind.empty()) kind += '-';
    kind += upper ? static_cast<char>(c - 'A' + 'a') : c;
  }
  return kind;
}

void add_wait(const Group& group, ClusterJob& made) {
  if (made.job.state == JobState::kSuspended) {
    made.wait_kind = "suspended";
    made.wait_text = "it is suspended; `divvy resume` lets it go on";
    return;
  }
  if (made.job.state != JobState::kQueued) return;
  made.wait_kind = "next";
  made.wait_text = group.pods.empty() ? "Kubernetes has not made its pods yet"
                                      : "the controller has not looked at it yet";
  for (const Pod& pod : group.pods) {
    if (pod.phase != Phase::kWaits) continue;
    if (!pod.facts.request) {
      made.wait_kind = "never";
      made.wait_text = pod.facts.request.error().message;
      return;
    }
    const json::object& told = condition(*pod.document, kube::kPlacedCondition);
    const std::string_view message = text_at(told, {"message"});
    if (message.empty()) continue;
    const std::size_t line = std::min(message.find('\n'), message.size());
    made.wait_kind = kind_of(text_at(told, {"reason"}));
    made.wait_text = message.substr(0, line);
    made.wait_details = message.substr(std::min(line + 1, message.size()));
    return;
  }
}

std::string name_of(const Group& group) {
  const json::object* const first =
      group.batch != nullptr ? group.batch : group.pods.front().document;
  if (const std::string_view given = label(*first, kNameLabel); !given.empty()) {
    return std::string(given);
  }
  if (group.batch == nullptr && group.pods.front().facts.gang) {
    return group.pods.front().facts.gang->name;
  }
  return std::string(text_at(*first, {"metadata", "name"}));
}

ClusterJob job_of(const std::string& key, Group group) {
  const json::object& first = group.batch != nullptr ? *group.batch : *group.pods.front().document;
  std::vector<std::string> names;
  std::uint32_t failed = 0;
  std::map<kube::GangRank, std::uint32_t> made_for;
  for (const Pod& pod : group.pods) {
    names.push_back(pod.facts.object.name);
    if (pod.phase == Phase::kFailed) ++failed;
    ++made_for[pod.rank()];
  }
  drop_replaced(group.pods);
  WallTime submitted = time_at(first, {"metadata", "creationTimestamp"}).value_or(WallTime());
  for (const Pod& pod : group.pods) submitted = std::min(submitted, pod.facts.object.created);
  ClusterJob made(model::Job(id_of(key), std::string(text_at(first, {"metadata", "namespace"})),
                             spec_of(group, name_of(group)), submitted));
  made.pod_names = std::move(names);
  if (group.batch != nullptr) {
    made.batch_job = text_at(first, {"metadata", "name"});
    made.owner_kind = "Job";
    made.owner_name = made.batch_job;
  } else {
    const Maker maker = maker_of(first);
    made.owner_kind = maker.kind;
    made.owner_name = maker.name;
  }
  made.job.state = state_of(group);
  add_members(group, made);
  const bool is_placed = !made.job.members.empty();
  for (const auto& [rank, count] : made_for) {
    if (is_placed && group.batch != nullptr) {
      made.job.attempt = std::max(made.job.attempt, count);
    }
  }
  if (is_placed) made.job.attempt = std::max(made.job.attempt, 1U);
  if (group.batch != nullptr) made.job.failures = failed;
  add_history(group, made);
  add_wait(group, made);
  return made;
}

}  // namespace

std::vector<ClusterJob> read_jobs(const ClusterObjects& objects) {
  const Claims claims = claims_of(objects.claims);
  std::map<std::string, Group> groups;
  const auto submitted_key = [](std::string_view space, std::string_view name) {
    return fmt::format("{}/job/{}", space, name);
  };
  for (const json::object& batch : objects.jobs) {
    if (label(batch, kJobLabel).empty()) continue;
    groups[submitted_key(text_at(batch, {"metadata", "namespace"}),
                         text_at(batch, {"metadata", "name"}))]
        .batch = &batch;
  }
  for (const json::object& document : objects.pods) {
    auto pod = read_pod(document, claims);
    if (!pod) continue;
    const std::string& space = pod->facts.object.space;
    std::string key = fmt::format("{}/pod/{}", space, pod->facts.object.uid);
    if (pod->facts.gang) key = fmt::format("{}/gang/{}", space, pod->facts.gang->key());
    // Whoever writes that label into a pod of their own is with that Job only if it made the pod.
    const std::string_view batch = label(document, kJobLabel);
    const Maker maker = maker_of(document);
    if (!batch.empty() && maker.kind == "Job" && maker.name == batch) {
      key = submitted_key(space, batch);
    }
    groups[key].pods.push_back(*std::move(pod));
  }
  std::vector<ClusterJob> jobs;
  jobs.reserve(groups.size());
  for (auto& [key, group] : groups) jobs.push_back(job_of(key, std::move(group)));
  std::ranges::sort(jobs, [](const ClusterJob& a, const ClusterJob& b) {
    return std::pair(a.job.submitted, a.job.id) > std::pair(b.job.submitted, b.job.id);
  });
  return jobs;
}

}  // namespace divvy::kube_api
