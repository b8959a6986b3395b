// Random pods, sensible and mad: the webhook always answers, and what it makes of a pod that asks
// is a pod that asks for the same, has one claim and one gate, and none of the foreign resources.
#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <array>

#include "kube/admission_testing.h"
#include "kube/json_view.h"
#include "kube/object_names.h"
#include "kube/pod_testing.h"
#include "kube/request_annotation.h"

namespace divvy::kube {
namespace {

using testing::Answer;
using testing::answer_of;
using testing::patched;
using testing::review_of;
namespace json = boost::json;

// Words that mean something to the dialects, and some that do not.
constexpr std::array<const char*, 24> kResources{"divvy.dev/gpu",
                                                 "divvy.dev/gpu-memory",
                                                 "nvidia.com/gpu",
                                                 "nvidia.com/gpu.shared",
                                                 "nvidia.com/gpumem",
                                                 "nvidia.com/gpumem-percentage",
                                                 "nvidia.com/gpucores",
                                                 "nvidia.com/priority",
                                                 "volcano.sh/vgpu-number",
                                                 "volcano.sh/vgpu-memory",
                                                 "volcano.sh/vgpu-cores",
                                                 "volcano.sh/gpu-memory",
                                                 "volcano.sh/gpu-number",
                                                 "aliyun.com/gpu-mem",
                                                 "aliyun.com/gpu-count",
                                                 "aliyun.com/gpu",
                                                 "aliyun.com/gpu-core.percentage",
                                                 "tencent.com/vcuda-core",
                                                 "tencent.com/vcuda-memory",
                                                 "cpu",
                                                 "memory",
                                                 "nvidia.com/mig-1g.5gb",
                                                 "",
                                                 "volcano.sh/vgpu-memory-percentage"};
constexpr std::array<const char*, 20> kAnnotations{"divvy.dev/gpu",
                                                   "divvy.dev/gpu-memory",
                                                   "divvy.dev/container",
                                                   "divvy.dev/class",
                                                   "divvy.dev/cap",
                                                   "divvy.dev/model",
                                                   "divvy.dev/topology",
                                                   "divvy.dev/priority",
                                                   "divvy.dev/queue",
                                                   "divvy.dev/gang",
                                                   "divvy.dev/gang-size",
                                                   "gpu-fraction",
                                                   "gpu-memory",
                                                   "gpu-fraction-num-devices",
                                                   "gpu-fraction-container-name",
                                                   "nvidia.com/numa-bind",
                                                   "nvidia.com/use-gputype",
                                                   "scheduling.k8s.io/group-name",
                                                   "divvy.dev/request",
                                                   "nvidia.com/container.a.gpu-memory.limit"};
constexpr std::array<const char*, 20> kValues{
    "0",   "1",   "2",    "3",    "30",      "50",   "100", "300", "1000", "3000",
    "0.3", "0.5", "10Gi", "true", "latency", "numa", "a",   "b,a", "",     "A100,V100"};

template <std::size_t kSize>
std::string one_of(const std::array<const char*, kSize>& words) {
  return words[*rc::gen::inRange<std::size_t>(0, kSize)];
}

json::object texts(std::size_t most, const auto& names) {
  json::object object;
  const auto count = *rc::gen::inRange<std::size_t>(0, most + 1);
  for (std::size_t i = 0; i < count; ++i) object[one_of(names)] = one_of(kValues);
  return object;
}

// Most often what a dialect can mean, else anything.
json::object any_limits() {
  constexpr std::array<const char*, 10> kSensible{
      R"({"divvy.dev/gpu": "300"})",
      R"({"divvy.dev/gpu-memory": "10Gi", "cpu": "2"})",
      R"({"nvidia.com/gpu": 2})",
      R"({"nvidia.com/gpu": "1", "nvidia.com/gpumem": "3000"})",
      R"({"nvidia.com/gpumem-percentage": "50", "nvidia.com/priority": "0"})",
      R"({"volcano.sh/vgpu-number": "1", "volcano.sh/vgpu-cores": "50"})",
      R"({"aliyun.com/gpu-mem": "3"})",
      R"({"tencent.com/vcuda-core": "50", "tencent.com/vcuda-memory": "4"})",
      R"({"volcano.sh/gpu-memory": "1024"})",
      R"({"cpu": "1"})"};
  if (*rc::gen::inRange(0, 3) == 0) return texts(3, kResources);
  return json::parse(one_of(kSensible)).as_object();
}

// Most often the same in all containers, so that it is a request rather than a contradiction.
json::array containers(const std::string& names, const json::object& common) {
  json::array list;
  for (const char name : names) {
    json::object limits = *rc::gen::inRange(0, 8) == 0 ? texts(3, kResources) : common;
    if (*rc::gen::inRange(0, 3) == 0) limits.clear();
    json::object document{{"name", std::string(1, name)}};
    if (!limits.empty() || *rc::gen::arbitrary<bool>()) {
      document["resources"] = json::object{{"limits", limits}};
      if (*rc::gen::arbitrary<bool>()) document["resources"].as_object()["requests"] = limits;
    }
    if (*rc::gen::inRange(0, 4) == 0) document["restartPolicy"] = "Always";
    list.push_back(std::move(document));
  }
  return list;
}

json::object any_pod() {
  const json::object common = any_limits();
  json::object spec{{"containers", containers(*rc::gen::element<std::string>("a", "ab"), common)}};
  if (*rc::gen::inRange(0, 3) == 0) spec["initContainers"] = containers("cd", common);
  if (*rc::gen::inRange(0, 8) == 0) spec["nodeName"] = "gpu-1";
  if (*rc::gen::inRange(0, 8) == 0) spec["schedulingGates"] = json::array{{{"name", "other"}}};
  if (*rc::gen::inRange(0, 8) == 0) spec["schedulerName"] = "hami-scheduler";
  if (*rc::gen::inRange(0, 8) == 0) {
    spec["resourceClaims"] =
        json::array{{{"name", one_of(kValues)}, {"resourceClaimName", "divvy-b"}}};
  }
  json::object metadata;
  if (*rc::gen::inRange(0, 3) == 0) metadata["annotations"] = texts(2, kAnnotations);
  return {{"metadata", std::move(metadata)}, {"spec", std::move(spec)}};
}

Answer mutate(const json::object& pod, Way way = Way::kClaims) {
  AdmissionPolicy policy;
  policy.way = way;
  return answer_of(review_mutation(review_of(pod), policy, [] { return "divvy-a"; }));
}

std::size_t count_named(const json::array& list, std::string_view name) {
  return static_cast<std::size_t>(std::ranges::count_if(list, [&](const json::value& item) {
    return item.is_object() && text_at(item.get_object(), {"name"}) == name;
  }));
}

RC_GTEST_PROP(AdmissionProperty, KeepsTheRequestThroughItsOwnPatch, ()) {
  const json::object pod = any_pod();
  const Way way = *rc::gen::element(Way::kClaims, Way::kSlots);
  RC_LOG() << json::serialize(pod);
  const Answer answer = mutate(pod, way);
  if (!answer.allowed) {
    RC_ASSERT(!answer.message.empty());
    return;
  }
  const auto asked = read_pod_request(pod, {});
  RC_ASSERT(asked.has_value());
  RC_CLASSIFY(asked->has_value(), "asks");
  if (!*asked) return;

  const json::object result = patched(pod, answer);
  const auto noted = annotated_request(result);
  RC_ASSERT(noted.has_value() && noted->has_value());
  RC_ASSERT((*noted)->spec == (*asked)->spec);
  RC_ASSERT((*noted)->containers == (*asked)->containers);
  RC_ASSERT((*noted)->init_containers == (*asked)->init_containers);
  RC_ASSERT((*noted)->gang == (*asked)->gang);
  RC_ASSERT((*noted)->way == way);

  // Read again: nothing is left of resources, and annotations still mean the same.
  const auto again = read_pod_request(result, {});
  RC_ASSERT(again.has_value());
  RC_ASSERT(!*again || (*again)->spec == (*asked)->spec);
  RC_ASSERT(mutate(result, way).patch.empty());
}

// One for each container that asks and none for others, whatever came with the pod; or none at all.
RC_GTEST_PROP(AdmissionProperty, GivesSlotsOrAClaimAndNeverBoth, ()) {
  json::object pod = any_pod();
  // As of a copy that went the other way.
  for (const Way before : {Way::kSlots, Way::kClaims}) {
    const Answer answer = mutate(pod, before);
    if (!answer.allowed || answer.patch.empty()) return;
    pod = patched(pod, answer);
    const auto noted = annotated_request(pod);
    RC_ASSERT(noted.has_value() && noted->has_value());
    std::size_t slots = 0;
    for (const std::string_view list : {"containers", "initContainers"}) {
      for (const json::value& container : array_at(pod, {"spec", list})) {
        for (const std::string_view part : {"limits", "requests"}) {
          const json::object& map = object_at(container.as_object(), {"resources", part});
          if (text_at(map, {kSlotResource}) == "1") ++slots;
        }
      }
    }
    const std::size_t asking = (*noted)->containers.size() + (*noted)->init_containers.size();
    const bool by_slots = before == Way::kSlots;
    RC_ASSERT(slots == (by_slots ? 2 * asking : 0));
    RC_ASSERT(count_named(array_at(pod, {"spec", "resourceClaims"}), kPodClaim) ==
              (by_slots ? 0U : 1U));
    RC_ASSERT(count_named(array_at(pod, {"spec", "schedulingGates"}), kQueueGate) ==
              (text_at(pod, {"spec", "nodeName"}).empty() ? 1U : 0U));
  }
}

RC_GTEST_PROP(AdmissionProperty, GivesOneClaimAndOneGate, ()) {
  const json::object pod = any_pod();
  const Answer answer = mutate(pod);
  if (!answer.allowed || answer.patch.empty()) return;
  const json::object result = patched(pod, answer);
  const bool bound = !text_at(result, {"spec", "nodeName"}).empty();
  RC_ASSERT(count_named(array_at(result, {"spec", "resourceClaims"}), kPodClaim) == 1u);
  RC_ASSERT(count_named(array_at(result, {"spec", "schedulingGates"}), kQueueGate) ==
            (bound ? 0u : 1u));
  const auto noted = annotated_request(result);
  RC_ASSERT(noted.has_value() && noted->has_value());
  std::size_t wired = 0;
  for (const std::string_view list : {"containers", "initContainers"}) {
    for (const json::value& container : array_at(result, {"spec", list})) {
      wired += count_named(array_at(container.as_object(), {"resources", "claims"}), kPodClaim);
    }
  }
  RC_ASSERT(wired == (*noted)->containers.size() + (*noted)->init_containers.size());
}

// Any JSON in any place.
json::value any_value(int depth) {
  switch (*rc::gen::inRange(0, depth == 0 ? 5 : 7)) {
    case 0:
      return nullptr;
    case 1:
      return *rc::gen::arbitrary<bool>();
    case 2:
      return *rc::gen::arbitrary<std::int64_t>();
    case 3:
      return json::value(*rc::gen::container<std::string>(rc::gen::inRange<char>(1, 127)));
    case 4:
      return json::value(one_of(kValues));
    case 5: {
      json::array list;
      const int count = *rc::gen::inRange(0, 3);
      for (int i = 0; i < count; ++i) list.push_back(any_value(depth - 1));
      return list;
    }
    default: {
      constexpr std::array<const char*, 14> kNames{
          "metadata", "spec",     "annotations",    "labels",         "containers",
          "name",     "limits",   "initContainers", "resources",      "requests",
          "claims",   "nodeName", "resourceClaims", "schedulingGates"};
      json::object object;
      const int count = *rc::gen::inRange(0, 5);
      for (int i = 0; i < count; ++i) {
        const std::string key = *rc::gen::arbitrary<bool>() ? one_of(kNames) : one_of(kAnnotations);
        object[key] = any_value(depth - 1);
      }
      return object;
    }
  }
}

RC_GTEST_PROP(AdmissionProperty, AnswersForAnyDocument, ()) {
  json::object pod = any_pod();
  const std::string part = *rc::gen::element<std::string>("metadata", "spec");
  if (*rc::gen::arbitrary<bool>()) {
    pod[part] = any_value(4);
  } else {
    json::object& inside = pod[part].as_object();
    inside[*rc::gen::element<std::string>("annotations", "labels", "containers", "initContainers",
                                          "resourceClaims", "schedulingGates", "priority")] =
        any_value(4);
  }
  const Answer answer = mutate(pod);
  if (answer.allowed) {
    (void)patched(pod, answer);
  } else {
    RC_ASSERT(!answer.message.empty());
  }
  (void)answer_of(review_validation(review_of(pod), {}));
}

}  // namespace
}  // namespace divvy::kube
