// GPUs of all nodes, who holds what of them, queues, and what was held.
#include <algorithm>
#include <boost/json.hpp>
#include <map>

#include "api/job_documents.h"
#include "base/text.h"
#include "kube/cluster_objects.h"
#include "kube/json_view.h"
#include "kube/queue_objects.h"
#include "kube_api/cluster_api.h"

namespace divvy::kube_api {
namespace {

namespace json = boost::json;
using kube::array_at;
using kube::number_at;
using kube::object_at;
using kube::text_at;
using kube::true_at;

// An agent that was not heard of for so long gets no new pods.
constexpr Duration kSilence = std::chrono::seconds(60);

struct ClusterGpu {
  std::string node;
  agent::MachineGpu gpu;
  std::uint32_t number = 0;  // among all of the cluster
  std::string trouble = {};  // of its node
  std::uint64_t held = 0;
  std::vector<std::string> tenants = {};
};

struct Fleet {
  std::vector<ClusterGpu> gpus;  // by node and index
  std::map<model::GpuUuid, std::size_t> places;
  std::vector<ClusterJob> jobs;
  bool simulated = false;

  // Null: no node tells of it (yet).
  [[nodiscard]] const ClusterGpu* find(const model::GpuUuid& uuid) const {
    const auto place = places.find(uuid);
    return place == places.end() ? nullptr : &gpus[place->second];
  }
};

Fleet make_fleet(const std::vector<json::object>& nodes, std::vector<ClusterJob> jobs,
                 WallTime now) {
  Fleet fleet;
  for (const json::object& document : nodes) {
    const auto facts = kube::read_gpu_node(document);
    if (!facts) continue;
    fleet.simulated |= true_at(document, {"status", "simulated"});
    const bool silent = !facts->heard || now - *facts->heard > kSilence;
    for (const agent::MachineGpu& gpu : facts->state.gpus) {
      fleet.gpus.push_back({.node = facts->object.name,
                            .gpu = gpu,
                            .trouble = silent ? "its node agent is silent" : ""});
    }
  }
  std::ranges::sort(fleet.gpus, {},
                    [](const ClusterGpu& one) { return std::pair(one.node, one.gpu.index); });
  for (std::size_t i = 0; i < fleet.gpus.size(); ++i) {
    fleet.gpus[i].number = static_cast<std::uint32_t>(i);
    fleet.places.emplace(fleet.gpus[i].gpu.uuid, i);
  }
  for (const ClusterJob& job : jobs) {
    if (model::is_finished(job.job.state)) continue;
    for (const model::JobMember& member : job.job.members) {
      if (member.end) continue;
      for (const model::Slice& slice : member.slices) {
        const auto place = fleet.places.find(slice.gpu());
        if (place == fleet.places.end()) continue;
        ClusterGpu& gpu = fleet.gpus[place->second];
        gpu.held += slice.share().thousandths();
        gpu.tenants.push_back(fmt::format("{}/{}", job.space(), job.job.spec.name));
      }
    }
  }
  fleet.jobs = std::move(jobs);
  return fleet;
}

std::string unusable(const ClusterGpu& one) {
  if (!one.trouble.empty()) return one.trouble;
  return one.gpu.lost && one.gpu.resting.empty() ? "it has failed" : one.gpu.resting;
}

// On a cluster a GPU has a number of its own only together with its node.
json::object stats_gpu(const ClusterGpu& one) {
  return {{"index", one.number},
          {"node", one.node},
          {"uuid", one.gpu.uuid.str()},
          {"model", fmt::format("{} on {}", one.gpu.model, one.node)},
          {"memoryBytes", one.gpu.memory.count()},
          {"freeShareThousandths", one.held >= Share::kWhole ? 0 : Share::kWhole - one.held},
          {"unusable", unusable(one)}};
}

// Nobody tells from afar what they use.
json::object slice_document(const ClusterGpu& gpu, const model::Slice& slice) {
  return {{"gpu", json::object{{"index", gpu.number}, {"uuid", gpu.gpu.uuid.str()}}},
          {"shareThousandths", slice.share().thousandths()},
          {"capped", slice.kind() == model::ShareKind::kCap},
          {"memoryUsedBytes", 0},
          {"memoryLimitBytes", slice.memory().count()},
          {"memoryPeakBytes", 0},
          {"usedShareThousandths", nullptr},
          {"waitedShareThousandths", 0},
          {"usedNanoseconds", 0},
          {"waitedNanoseconds", 0}};
}

json::array tenant_documents(const Fleet& fleet) {
  json::array tenants;
  for (const ClusterJob& job : fleet.jobs) {
    if (model::is_finished(job.job.state)) continue;
    json::array slices;
    for (const model::JobMember& member : job.job.members) {
      if (member.end) continue;
      for (const model::Slice& slice : member.slices) {
        const ClusterGpu* const gpu = fleet.find(slice.gpu());
        if (gpu != nullptr) slices.push_back(slice_document(*gpu, slice));
      }
    }
    if (slices.empty()) continue;
    tenants.push_back(json::object{
        {"id", job.job.id.value()},
        {"holder", to_string(model::Holder::kMembers)},
        {"job", job.job.id.value()},
        {"name", escape_for_terminal(job.job.spec.name)},
        {"user", job.space()},
        {"class", to_string(job.job.spec.job_class)},
        {"mode", ""},
        {"state", to_string(job.job.state)},
        {"command", escape_for_terminal(fmt::format("{}", fmt::join(job.job.spec.command, " ")))},
        {"processes", json::array()},
        {"slices", std::move(slices)}});
  }
  return tenants;
}

std::size_t waiting(const Fleet& fleet) {
  return static_cast<std::size_t>(std::ranges::count(
      fleet.jobs, model::JobState::kQueued, [](const ClusterJob& one) { return one.job.state; }));
}

json::array gpu_documents(const Fleet& fleet) {
  json::array gpus;
  for (const ClusterGpu& one : fleet.gpus) gpus.push_back(stats_gpu(one));
  return gpus;
}

json::value text_or_null(std::string_view text) {
  return text.empty() ? json::value(nullptr) : json::value(escape_for_terminal(text));
}

// As `divvy gpu list` shows them: what the agent says that rests is cordoned or in quarantine.
json::object health_document(const ClusterGpu& one) {
  const std::string why = unusable(one);
  const bool cordoned = !one.gpu.lost && one.gpu.resting.find("cordon") != std::string::npos;
  const char* state = why.empty() || cordoned ? "healthy" : "quarantined";
  if (!one.trouble.empty()) state = "unknown";
  json::array tenants;
  for (const std::string& name : one.tenants) tenants.push_back(json::object{{"name", name}});
  return {{"index", one.gpu.index},
          {"node", one.node},
          {"uuid", one.gpu.uuid.str()},
          {"model", one.gpu.model},
          {"memoryBytes", one.gpu.memory.count()},
          {"heldShareThousandths", one.held},
          {"state", state},
          {"reason", text_or_null(cordoned ? "" : why)},
          {"cordoned", cordoned},
          {"draining", false},
          {"cordonReason", text_or_null(cordoned ? why : "")},
          {"tenants", std::move(tenants)}};
}

// "2", "80GiB" and "3" of a queue's status.
json::object held_document(const json::object& held) {
  const auto memory = parse_bytes(text_at(held, {"memory"}));
  return {{"gpu", text_at(held, {"gpus"}).empty() ? "0" : text_at(held, {"gpus"})},
          {"memoryBytes", memory ? memory->count() : 0},
          {"jobs", number_at(held, {"jobs"}).value_or(0)}};
}

template <typename T>
json::value text_of(const std::optional<T>& value) {
  return value ? json::value(to_string(*value)) : json::value(nullptr);
}

json::object queue_document(const std::string& path, const jobs::QueueSettings& settings,
                            const json::object& status) {
  json::object quota{
      {"gpu", text_of(settings.quota.share)}, {"memoryBytes", nullptr}, {"jobs", nullptr}};
  if (settings.quota.memory) quota["memoryBytes"] = settings.quota.memory->count();
  if (settings.quota.jobs) quota["jobs"] = *settings.quota.jobs;
  const std::string_view borrowed = text_at(status, {"borrowed", "gpus"});
  return {{"path", path},
          {"quota", std::move(quota)},
          {"mayBorrow", settings.may_borrow},
          {"mostGpu", text_of(settings.most_share)},
          {"weight", settings.weight},
          {"defaultTimeLimitSeconds", nullptr},
          {"maxTimeLimitSeconds", nullptr},
          {"held", held_document(object_at(status, {"held"}))},
          {"borrowedGpu", borrowed.empty() ? "0" : borrowed},
          {"waiting", number_at(status, {"waiting"}).value_or(0)},
          {"usedGpuHours", nullptr},
          {"score", nullptr}};
}

// What its members had from when they were placed, as far as Kubernetes still has them; of those
// that have ended, whose claims are gone, what they asked for.
store::UsageSum usage_of(const ClusterJob& job, const store::UsageFilter& filter, WallTime now) {
  store::UsageSum sum;
  for (const model::JobMember& member : job.job.members) {
    WallTime from = job.job.started.value_or(now);
    WallTime until = member.end ? member.end->at : now;
    if (filter.since) from = std::max(from, *filter.since);
    if (filter.before) until = std::min(until, *filter.before);
    if (until <= from) continue;
    const auto seconds =
        static_cast<std::uint64_t>(std::chrono::floor<std::chrono::seconds>(until - from).count());
    if (member.slices.empty() && job.job.started) {
      const model::Request& request = job.job.spec.request;
      sum.held += std::uint64_t{request.share().thousandths()} * seconds;
      sum.memory += request.memory().value_or(Bytes(0)).count() / (1U << 20U) * seconds;
    }
    for (const model::Slice& slice : member.slices) {
      sum.held += slice.share().thousandths() * seconds;
      sum.memory += slice.memory().count() / (1U << 20U) * seconds;
    }
  }
  return sum;
}

}  // namespace

ClusterApi::Answer ClusterApi::get_node(const Asked& /*asked*/) {
  DIVVY_TRY(nodes, list_if_allowed("/apis/divvy.dev/v1", "gpunodes"));
  DIVVY_TRY(all, jobs());
  const Fleet fleet = make_fleet(nodes, std::move(all), clock_.wall_now());
  return api::answer(200, api::headed("Node", {{"hostname", "cluster"},
                                               {"simulated", fleet.simulated},
                                               {"version", options_.version},
                                               {"gpus", gpu_documents(fleet)},
                                               {"waiting", waiting(fleet)}}));
}

ClusterApi::Answer ClusterApi::get_stats(const Asked& /*asked*/) {
  DIVVY_TRY(nodes, list("/apis/divvy.dev/v1", "gpunodes"));
  DIVVY_TRY(all, jobs());
  const Fleet fleet = make_fleet(nodes, std::move(all), clock_.wall_now());
  const auto now = clock_.wall_now().time_since_epoch();
  return api::answer(
      200, api::headed("Stats", {{"unixMilliseconds",
                                  std::chrono::floor<std::chrono::milliseconds>(now).count()},
                                 {"hostname", "cluster"},
                                 {"simulated", fleet.simulated},
                                 {"waiting", waiting(fleet)},
                                 {"gpus", gpu_documents(fleet)},
                                 {"tenants", tenant_documents(fleet)}}));
}

ClusterApi::Answer ClusterApi::list_tenants(const Asked& /*asked*/) {
  DIVVY_TRY(nodes, list("/apis/divvy.dev/v1", "gpunodes"));
  DIVVY_TRY(all, jobs());
  const Fleet fleet = make_fleet(nodes, std::move(all), clock_.wall_now());
  json::object document = api::listed("TenantList", tenant_documents(fleet));
  document["waiting"] = waiting(fleet);
  return api::answer(200, document);
}

ClusterApi::Answer ClusterApi::list_gpus(const Asked& /*asked*/) {
  DIVVY_TRY(nodes, list("/apis/divvy.dev/v1", "gpunodes"));
  DIVVY_TRY(all, jobs());
  const Fleet fleet = make_fleet(nodes, std::move(all), clock_.wall_now());
  json::array items;
  for (const ClusterGpu& one : fleet.gpus) items.push_back(health_document(one));
  return api::answer(200, api::listed("GpuHealthList", std::move(items)));
}

ClusterApi::Answer ClusterApi::list_queues(const Asked& /*asked*/) {
  DIVVY_TRY(documents, list("/apis/divvy.dev/v1", "queues"));
  kube::QueueObjects objects;
  for (const json::object& document : documents) {
    auto queue = kube::read_queue(document);
    if (!queue) continue;
    const std::string name = queue->object.name;
    objects.emplace(name, *std::move(queue));
  }
  const kube::ComposedQueues composed = kube::compose_queues({}, objects);
  json::array items;
  for (const auto& [name, path] : composed.paths) {
    const kube::QueueObject& queue = objects.at(name);
    items.push_back(queue_document(path, queue.settings, queue.status));
  }
  return api::answer(200, api::listed("QueueList", std::move(items)));
}

ClusterApi::Answer ClusterApi::report_usage(const Asked& asked) {
  DIVVY_TRY(wanted, api::parse_usage_query(asked.request.query));
  if (wanted.by == store::UsageBy::kHour) {
    return err(ErrorCode::kUnsupported,
               "by: Kubernetes keeps no hours; user, queue and job can be had, of jobs that are "
               "still there, and everything else from the metrics");
  }
  DIVVY_TRY(all, jobs());
  std::map<std::string, store::UsageSum> sums;
  for (const ClusterJob& job : all) {
    const store::UsageFilter& filter = wanted.filter;
    if (filter.owner && job.job.owner != *filter.owner) continue;
    if (filter.job && job.job.id != *filter.job) continue;
    const std::string& queue = job.job.spec.queue;
    if (filter.queue && queue != *filter.queue && !queue.starts_with(*filter.queue + "/")) continue;
    const store::UsageSum one = usage_of(job, filter, clock_.wall_now());
    if (one.held == 0 && one.memory == 0) continue;
    const std::string name = wanted.by == store::UsageBy::kUser    ? job.job.owner
                             : wanted.by == store::UsageBy::kQueue ? queue
                                                                   : fmt::format("{}", job.job.id);
    store::UsageSum& sum = sums[name];
    sum.name = name;
    sum.held += one.held;
    sum.memory += one.memory;
    ++sum.jobs;
  }
  std::vector<store::UsageSum> rows;
  rows.reserve(sums.size());
  for (auto& [name, sum] : sums) rows.push_back(std::move(sum));
  if (wanted.csv) return net::HttpResponse{200, "text/csv", api::usage_csv(wanted.by, rows)};
  json::array items;
  for (const store::UsageSum& sum : rows) items.push_back(api::usage_document(sum));
  return api::answer(200, api::listed("UsageReport", std::move(items)));
}

}  // namespace divvy::kube_api
