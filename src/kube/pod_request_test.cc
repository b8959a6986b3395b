#include "kube/pod_request.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kube/pod_testing.h"

namespace divvy::kube {
namespace {

using testing::container;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::pod;
using testing::pod_of;
using ::testing::StartsWith;
namespace json = boost::json;

const DialectPolicy kPolicy;

PodRequest read(const json::object& document, const DialectPolicy& policy = kPolicy) {
  const auto request = read_pod_request(document, policy);
  if (!request) ADD_FAILURE() << request.error().message;
  if (request && !*request) ADD_FAILURE() << "it asks for nothing";
  if (!request || !*request) return PodRequest(model::JobSpec(*model::Request::parse("1")));
  return **request;
}

void expect_nothing(const json::object& document, const DialectPolicy& policy = kPolicy) {
  const auto request = read_pod_request(document, policy);
  ASSERT_TRUE(request.has_value()) << request.error().message;
  EXPECT_FALSE(request->has_value()) << (*request)->dialect;
}

std::string refusal(const json::object& document, const DialectPolicy& policy = kPolicy) {
  const auto request = read_pod_request(document, policy);
  return request ? "it was read" : request.error().message;
}

struct Amount {
  std::string dialect;
  Share share;
  std::optional<Bytes> memory = std::nullopt;
  friend bool operator==(const Amount&, const Amount&) = default;
  friend void PrintTo(const Amount& amount, std::ostream* out) {
    *out << amount.dialect << " " << to_string(amount.share) << " "
         << (amount.memory ? to_string(*amount.memory) : "-");
  }
};

Amount amount(const json::object& document, const DialectPolicy& policy = kPolicy) {
  const PodRequest request = read(document, policy);
  EXPECT_THAT(request.containers, ElementsAre("main"));
  return {request.dialect, request.spec.request.share(), request.spec.request.memory()};
}

// ---- Divvy's own --------------------------------------------------------------------------------

TEST(DivvyDialect, WhetherAPodMayBeMovedIsTrueOrFalse) {
  EXPECT_EQ(read(pod_of({}, {{"divvy.dev/gpu", "0.5"}, {"divvy.dev/movable", "true"}})).spec,
            read(pod_of({}, {{"divvy.dev/gpu", "0.5"}})).spec)
      << "the controller reads it from the pod";
  EXPECT_THAT(refusal(pod_of({}, {{"divvy.dev/gpu", "0.5"}, {"divvy.dev/movable", "yes"}})),
              HasSubstr("metadata.annotations[\"divvy.dev/movable\"]"));
}

TEST(DivvyDialect, AnnotationsSayHowMuch) {
  EXPECT_EQ(amount(pod_of({}, {{"divvy.dev/gpu", "0.3"}})), (Amount{"divvy", Share(300)}));
  EXPECT_EQ(amount(pod_of({}, {{"divvy.dev/gpu", "2.5"}})), (Amount{"divvy", Share(2500)}));
  EXPECT_EQ(amount(pod_of({}, {{"divvy.dev/gpu-memory", "10Gi"}})),
            (Amount{"divvy", Share(0), gib(10)}));
  EXPECT_EQ(amount(pod_of({}, {{"divvy.dev/gpu", "0.3"}, {"divvy.dev/gpu-memory", "10GiB"}})),
            (Amount{"divvy", Share(300), gib(10)}));
}

TEST(DivvyDialect, ResourcesCountThousandthsAndBytes) {
  EXPECT_EQ(amount(pod_of({{"divvy.dev/gpu", "300"}})), (Amount{"divvy", Share(300)}));
  EXPECT_EQ(amount(pod_of({{"divvy.dev/gpu", "2k"}})), (Amount{"divvy", Share(2000)}));
  EXPECT_EQ(amount(pod_of({{"divvy.dev/gpu-memory", "10Gi"}})),
            (Amount{"divvy", Share(0), gib(10)}));
  EXPECT_THAT(read(pod_of({{"divvy.dev/gpu", "300"}})).resources,
              ElementsAre("divvy.dev/gpu", "divvy.dev/gpu-memory"));
  EXPECT_EQ(refusal(pod_of({{"divvy.dev/gpu", "1"}})),
            "spec.containers[0].resources.limits[\"divvy.dev/gpu\"]: it is in thousandths of a "
            "GPU; write 1000 for 1 GPU");
  EXPECT_THAT(refusal(pod_of({{"divvy.dev/gpu-memory", "10"}})), HasSubstr("write it like 10Gi"));
}

TEST(DivvyDialect, AnnotationsSayHowTheRequestIsTreated) {
  const PodRequest request = read(pod_of({}, {{"divvy.dev/gpu", "0.3"},
                                              {"divvy.dev/class", "latency"},
                                              {"divvy.dev/cap", "true"},
                                              {"divvy.dev/model", "H200, H100"},
                                              {"divvy.dev/not-model", "PCIe"},
                                              {"divvy.dev/topology", "numa"},
                                              {"divvy.dev/priority", "-7"},
                                              {"divvy.dev/queue", "research/vision"},
                                              {"divvy.dev/gang", "llm"},
                                              {"divvy.dev/gang-size", "4"}}));
  const model::JobSpec& spec = request.spec;
  EXPECT_EQ(spec.job_class, model::JobClass::kLatency);
  EXPECT_EQ(spec.request.kind(), model::ShareKind::kCap);
  EXPECT_THAT(spec.request.allowed_models(), ElementsAre("H200", "H100"));
  EXPECT_THAT(spec.request.denied_models(), ElementsAre("PCIe"));
  EXPECT_EQ(spec.request.topology(), model::TopologyPreference::kSameNuma);
  EXPECT_EQ(spec.priority, -7);
  EXPECT_EQ(spec.queue, "research/vision");
  EXPECT_EQ(spec.holder, model::Holder::kSlice);
  EXPECT_EQ(request.gang, (PodGang{"llm", 4, 0}));
}

TEST(DivvyDialect, TreatmentGoesWithForeignDialectsToo) {
  const PodRequest request =
      read(pod_of({{"nvidia.com/gpu", "1"}}, {{"divvy.dev/class", "latency"}}));
  EXPECT_EQ(request.dialect, "nvidia");
  EXPECT_EQ(request.spec.job_class, model::JobClass::kLatency);
}

TEST(DivvyDialect, RefusesWhatCannotBeMeant) {
  EXPECT_THAT(refusal(pod_of({}, {{"divvy.dev/gpu", "30%"}})),
              StartsWith("metadata.annotations[\"divvy.dev/gpu\"]: "));
  EXPECT_THAT(refusal(pod_of({}, {{"divvy.dev/gpu", "0"}})), HasSubstr("leave it out"));
  EXPECT_THAT(refusal(pod_of({}, {{"divvy.dev/gpus", "0.3"}})),
              HasSubstr("did you mean divvy.dev/gpu?"));
  EXPECT_THAT(refusal(pod_of({{"divvy.dev/gpu", "300"}}, {{"divvy.dev/gpu", "0.3"}})),
              HasSubstr("leave one of them out"));
  EXPECT_THAT(refusal(pod_of({}, {{"divvy.dev/gpu", "0.3"}, {"divvy.dev/container", "gone"}})),
              HasSubstr("the pod has no container \"gone\"; it has main"));
  EXPECT_THAT(refusal(pod_of({}, {{"divvy.dev/gpu", "0.3"}, {"divvy.dev/gang", "x"}})),
              HasSubstr("divvy.dev/gang-size"));
  EXPECT_THAT(refusal(pod_of({}, {{"divvy.dev/gpu", "0.3"}, {"divvy.dev/cap", "yes"}})),
              HasSubstr("true or false"));
  EXPECT_THAT(refusal(pod_of({}, {{"divvy.dev/gpu", "0.3"}, {"divvy.dev/queue", "../x y"}})),
              StartsWith("metadata.annotations[\"divvy.dev/queue\"]: "));
  EXPECT_THAT(refusal(pod_of({}, {{"divvy.dev/gpu", "0.3"}, {"divvy.dev/priority", "1001"}})),
              HasSubstr("from -1000 to 1000"));
}

TEST(DivvyDialect, PriorityComesFromThePodWhereNothingElseIsSaid) {
  json::object document = pod_of({}, {{"divvy.dev/gpu", "0.3"}});
  document["spec"].as_object()["priority"] = 50;
  EXPECT_EQ(read(document).spec.priority, 50);
  document["spec"].as_object()["priority"] = 1'000'000;
  EXPECT_EQ(read(document).spec.priority, 1000);
}

// ---- containers ---------------------------------------------------------------------------------

TEST(PodRequest, NamesEveryContainerThatAsks) {
  const PodRequest request =
      read(pod({.annotations = {{"divvy.dev/gpu", "0.3"}, {"divvy.dev/container", "b,a"}},
                .containers = {container("a"), container("b"), container("c")}}));
  EXPECT_THAT(request.containers, ElementsAre("b", "a"));
  EXPECT_EQ(request.spec.members(), 2u);
}

TEST(PodRequest, AnnotationsWithoutANameAreForTheFirstContainer) {
  const PodRequest request = read(pod(
      {.annotations = {{"divvy.dev/gpu", "0.3"}}, .containers = {container("a"), container("b")}}));
  EXPECT_THAT(request.containers, ElementsAre("a"));
}

TEST(PodRequest, InitContainersUseTheSliceOfTheFirstContainer) {
  json::object sidecar = container("side", {{"nvidia.com/gpu", "1"}});
  sidecar["restartPolicy"] = "Always";
  const PodRequest request =
      read(pod({.containers = {container("cpu"), container("main", {{"nvidia.com/gpu", "1"}})},
                .init_containers = {sidecar, container("warm", {{"nvidia.com/gpu", "1"}})}}));
  EXPECT_THAT(request.containers, ElementsAre("main", "side"));
  EXPECT_THAT(request.init_containers, ElementsAre("warm"));
  EXPECT_EQ(request.spec.members(), 2u);
}

TEST(PodRequest, TheFirstInitContainerHasASliceWhereNoMainOneAsks) {
  const PodRequest request =
      read(pod({.containers = {container("main")},
                .init_containers = {container("one", {{"nvidia.com/gpu", "1"}}),
                                    container("two", {{"nvidia.com/gpu", "1"}})}}));
  EXPECT_THAT(request.containers, ElementsAre("one"));
  EXPECT_THAT(request.init_containers, ElementsAre("two"));
}

TEST(PodRequest, RefusesUnlikeContainers) {
  EXPECT_EQ(refusal(pod({.containers = {container("a", {{"divvy.dev/gpu", "300"}}),
                                        container("b", {{"divvy.dev/gpu", "500"}})}})),
            "spec.containers[1].resources: container b asks for 0.5 GPU and container a for 0.3 "
            "GPU; containers of one pod get slices of one size: ask for the same, or make two "
            "pods");
}

TEST(PodRequest, RefusesTwoDialectsAtOnce) {
  const std::string message =
      refusal(pod_of({{"nvidia.com/gpu", "1"}}, {{"divvy.dev/gpu", "0.3"}}));
  EXPECT_THAT(message, StartsWith("spec.containers[0].resources.limits[\"nvidia.com/gpu\"]: "));
  EXPECT_THAT(message, HasSubstr("metadata.annotations[\"divvy.dev/gpu\"]"));
  EXPECT_THAT(message, HasSubstr("(divvy and nvidia)"));
  EXPECT_THAT(refusal(pod_of({{"nvidia.com/gpumem", "1"}, {"nvidia.com/gpu.shared", "1"}})),
              HasSubstr("(nvidia-replicas and hami)"));
}

TEST(PodRequest, IsNothingWhereNothingIsAsked) {
  expect_nothing(pod({}));
  expect_nothing(pod_of({{"cpu", "2"}, {"memory", "4Gi"}}));
  expect_nothing(pod_of({{"nvidia.com/gpu", "0"}}));
  expect_nothing(json::object{});
  expect_nothing(pod_of({{"nvidia.com/mig-1g.10gb", "1"}}));
}

TEST(PodRequest, RefusesARequestThatIsNotTheLimit) {
  json::object document = pod_of({{"nvidia.com/gpu", "1"}});
  document["spec"].at("containers").at(0).at("resources").at("requests").as_object() = {
      {"nvidia.com/gpu", "2"}};
  EXPECT_THAT(refusal(document), HasSubstr("requests[\"nvidia.com/gpu\"]: 2 is not the limit, 1"));
}

TEST(PodRequest, ReadsARequestWithoutALimit) {
  json::object document = pod_of({{"nvidia.com/gpu", "1"}});
  document["spec"].at("containers").at(0).at("resources").as_object().erase("limits");
  EXPECT_EQ(amount(document), (Amount{"nvidia", Share(1000)}));
}

TEST(PodRequest, NamesTheFieldOfAMalformedDocument) {
  EXPECT_EQ(refusal({{"spec", json::object{{"containers", "x"}}}}),
            "spec.containers: this has to be a list");
  EXPECT_THAT(refusal({{"metadata", json::object{{"annotations", json::object{{"a", 1}}}}}}),
              StartsWith("metadata.annotations[\"a\"]: "));
  EXPECT_THAT(refusal(pod({.containers = {container("a"), container("a")}})),
              StartsWith("spec.containers[1].name: "));
}

// ---- NVIDIA -------------------------------------------------------------------------------------

TEST(NvidiaDialect, WholeGpusByPolicy) {
  EXPECT_EQ(amount(pod_of({{"nvidia.com/gpu", "2"}})), (Amount{"nvidia", Share(2000)}));
  expect_nothing(pod_of({{"nvidia.com/gpu", "2"}}), {.nvidia_gpus = NvidiaGpus::kLeave});
  expect_nothing(pod_of({{"nvidia.com/gpu.shared", "2"}}), {.nvidia_gpus = NvidiaGpus::kLeave});
}

TEST(NvidiaDialect, ReplicasArePartsOfAGpu) {
  const DialectPolicy ten{.nvidia_gpus = NvidiaGpus::kReplicas, .replicas_per_gpu = 10};
  EXPECT_EQ(amount(pod_of({{"nvidia.com/gpu", "1"}}), ten),
            (Amount{"nvidia-replicas", Share(100)}));
  EXPECT_EQ(amount(pod_of({{"nvidia.com/gpu", "25"}}), ten),
            (Amount{"nvidia-replicas", Share(2500)}));
  EXPECT_EQ(amount(pod_of({{"nvidia.com/gpu.shared", "3"}}), {.replicas_per_gpu = 3}),
            (Amount{"nvidia-replicas", Share(1000)}));
  EXPECT_EQ(amount(pod_of({{"nvidia.com/gpu.shared", "1"}}), {.replicas_per_gpu = 3}),
            (Amount{"nvidia-replicas", Share(333)}));
  EXPECT_THAT(refusal(pod_of({{"nvidia.com/gpu.shared", "1"}})),
              HasSubstr("how many replicas a GPU has is not set"));
}

// ---- HAMi ---------------------------------------------------------------------------------------

TEST(HamiDialect, ReadsCardsMemoryAndCores) {
  EXPECT_EQ(amount(pod_of({{"nvidia.com/gpu", "1"}, {"nvidia.com/gpumem", "3000"}})),
            (Amount{"hami", Share(0), mib(3000)}));
  EXPECT_EQ(
      amount(pod_of(
          {{"nvidia.com/gpu", "1"}, {"nvidia.com/gpumem", "3000"}, {"nvidia.com/gpucores", "30"}})),
      (Amount{"hami", Share(300), mib(3000)}));
  EXPECT_EQ(amount(pod_of({{"nvidia.com/gpumem-percentage", "50"}})), (Amount{"hami", Share(500)}));
  EXPECT_EQ(amount(pod_of({{"nvidia.com/gpu", "2"}, {"nvidia.com/gpucores", "100"}})),
            (Amount{"hami", Share(2000)}));
  EXPECT_EQ(amount(pod_of({{"nvidia.com/gpu", "2"},
                           {"nvidia.com/gpumem", "1000"},
                           {"nvidia.com/gpucores", "100"}})),
            (Amount{"hami", Share(2000), mib(1000)}));
  EXPECT_EQ(amount(pod_of({{"nvidia.com/gpu", "1"}}, {{"nvidia.com/use-gputype", "A100"}})),
            (Amount{"hami", Share(1000)}));
}

TEST(HamiDialect, WarnsThatCoresAloneHaveTheirPartOfTheMemory) {
  const PodRequest request = read(pod_of({{"nvidia.com/gpu", "1"}, {"nvidia.com/gpucores", "30"}}));
  EXPECT_EQ(request.spec.request.share(), Share(300));
  EXPECT_THAT(request.warnings, ElementsAre(HasSubstr("30 % of the memory")));
}

TEST(HamiDialect, ReadsAnnotationsPriorityAndPolicy) {
  json::object document =
      pod_of({{"nvidia.com/gpu", "1"}, {"nvidia.com/gpumem", "3000"}, {"nvidia.com/priority", "0"}},
             {{"nvidia.com/use-gputype", "A100,V100"},
              {"nvidia.com/nouse-gputype", "1080"},
              {"nvidia.com/use-gpuuuid", "GPU-aaaa"},
              {"hami.io/gpu-scheduler-policy", "topology-aware"},
              {"nvidia.com/vgpu-mode", "hami-core"}});
  document["spec"].as_object()["schedulerName"] = "hami-scheduler";
  document["spec"].at("containers").at(0).as_object()["env"] =
      json::array{{{"name", "GPU_CORE_UTILIZATION_POLICY"}, {"value", "force"}}};
  const PodRequest request = read(document);
  EXPECT_THAT(request.spec.request.allowed_models(), ElementsAre("A100", "V100"));
  EXPECT_THAT(request.spec.request.denied_models(), ElementsAre("1080"));
  EXPECT_THAT(request.spec.devices, ElementsAre("GPU-aaaa"));
  EXPECT_EQ(request.spec.job_class, model::JobClass::kLatency);
  EXPECT_EQ(request.spec.where.gpus_near.closeness, model::Closeness::kNvlink);
  EXPECT_EQ(request.spec.request.kind(), model::ShareKind::kCap);
  EXPECT_EQ(request.foreign_scheduler, "hami-scheduler");
  EXPECT_THAT(request.warnings, IsEmpty());
}

TEST(HamiDialect, LeavesPodsAloneThatIgnoreItsWebhook) {
  expect_nothing(pod({.labels = {{"hami.io/webhook", "ignore"}},
                      .containers = {container("main", {{"nvidia.com/gpu", "1"}})}}));
}

TEST(HamiDialect, RefusesWhatCannotBeMeant) {
  EXPECT_EQ(refusal(pod_of({{"nvidia.com/gpu", "1"}, {"nvidia.com/gpucores", "101"}})),
            "spec.containers[0].resources.limits[\"nvidia.com/gpucores\"]: 101 % of a card is more "
            "than one; write 1 to 100, and more cards in \"nvidia.com/gpu\"");
  EXPECT_THAT(refusal(pod_of({{"nvidia.com/gpu", "2"}, {"nvidia.com/gpumem", "3000"}})),
              HasSubstr("a part of each of 2 cards"));
  EXPECT_THAT(refusal(pod_of({{"nvidia.com/gpumem", "1"}, {"nvidia.com/gpumem-percentage", "1"}})),
              HasSubstr("leave one of them out"));
  EXPECT_THAT(
      refusal(pod_of({{"nvidia.com/gpumem-percentage", "50"}, {"nvidia.com/gpucores", "30"}})),
      HasSubstr("write the memory in MiB"));
  EXPECT_THAT(refusal(pod_of({{"nvidia.com/gpu", "0"}, {"nvidia.com/gpumem", "3000"}})),
              HasSubstr("set \"nvidia.com/gpu\" to 1"));
  EXPECT_THAT(refusal(pod_of({{"nvidia.com/gpu", "1"}}, {{"nvidia.com/nouse-gpuuuid", "GPU-a"}})),
              HasSubstr("nvidia.com/use-gpuuuid"));
  EXPECT_THAT(refusal(pod_of({{"nvidia.com/gpu", "1"}}, {{"nvidia.com/vgpu-mode", "mig"}})),
              HasSubstr("write hami-core or mps"));
  EXPECT_THAT(refusal(pod_of({{"nvidia.com/gpumem", "1"}, {"nvidia.com/priority", "2"}})),
              HasSubstr("neither 0 (high) nor 1 (low)"));
  EXPECT_THAT(refusal(pod_of({{"nvidia.com/gpumem", "99999999999999999"}})),
              HasSubstr("more than any GPU has"));
}

TEST(HamiDialect, CanBeLeftToHami) {
  expect_nothing(pod_of({{"nvidia.com/gpu", "1"}, {"nvidia.com/gpumem", "3000"}}),
                 {.left_alone = {"hami"}});
}

// ---- KAI ----------------------------------------------------------------------------------------

TEST(KaiDialect, ReadsFractionAndMemory) {
  EXPECT_EQ(amount(pod_of({}, {{"gpu-fraction", "0.5"}})), (Amount{"kai", Share(500)}));
  EXPECT_EQ(amount(pod_of({}, {{"gpu-memory", "2000"}})), (Amount{"kai", Share(0), mib(2000)}));
  EXPECT_EQ(amount(pod_of({}, {{"nvidia.com/container.main.gpu-memory.limit", "2Gi"}})),
            (Amount{"kai", Share(0), gib(2)}));
}

TEST(KaiDialect, ReadsContainerQueueGroupAndScheduler) {
  json::object document = pod({.annotations = {{"gpu-fraction", "0.5"},
                                               {"gpu-fraction-container-name", "b"},
                                               {"kai.scheduler/preemptibility", "non-preemptible"},
                                               {"pod-group-name", "pg-1"}},
                               .labels = {{"kai.scheduler/queue", "team-a"}},
                               .containers = {container("a"), container("b")}});
  document["spec"].as_object()["schedulerName"] = "kai-scheduler";
  const PodRequest request = read(document);
  EXPECT_THAT(request.containers, ElementsAre("b"));
  EXPECT_EQ(request.spec.queue, "team-a");
  EXPECT_FALSE(request.spec.preemptible);
  EXPECT_EQ(request.gang, (PodGang{"pg-1", 0, 0}));
  EXPECT_EQ(request.foreign_scheduler, "kai-scheduler");
}

TEST(KaiDialect, RefusesWhatCannotBeMeant) {
  for (const char* fraction : {"0", "1", "1.5", "0.3333", "half", "-0.5", ""}) {
    EXPECT_THAT(refusal(pod_of({}, {{"gpu-fraction", fraction}})),
                StartsWith("metadata.annotations[\"gpu-fraction\"]: "));
  }
  EXPECT_THAT(refusal(pod_of({}, {{"gpu-fraction", "0.5"}, {"gpu-memory", "1"}})),
              HasSubstr("leave one of them out"));
  EXPECT_THAT(refusal(pod_of({}, {{"gpu-fraction", "0.5"}, {"gpu-fraction-num-devices", "2"}})),
              HasSubstr("a part of each of 2 GPUs"));
  EXPECT_THAT(refusal(pod_of({}, {{"gpu-fraction-num-devices", "1"}})),
              HasSubstr("needs gpu-fraction"));
  EXPECT_THAT(refusal(pod_of({{"nvidia.com/gpu", "1"}}, {{"gpu-fraction", "0.5"}})),
              HasSubstr("(nvidia and kai)"));
  EXPECT_THAT(refusal(pod_of({}, {{"nvidia.com/container.x.gpu-memory.limit", "2Gi"}})),
              HasSubstr("no container \"x\""));
}

// ---- Volcano ------------------------------------------------------------------------------------

TEST(VolcanoDialect, ReadsCardsMemoryAndCores) {
  EXPECT_EQ(amount(pod_of({{"volcano.sh/vgpu-number", "1"},
                           {"volcano.sh/vgpu-memory", "3000"},
                           {"volcano.sh/vgpu-cores", "50"}})),
            (Amount{"volcano", Share(500), mib(3000)}));
  EXPECT_EQ(amount(pod_of({{"volcano.sh/vgpu-number", "2"}})), (Amount{"volcano", Share(2000)}));
  EXPECT_EQ(amount(pod_of({{"volcano.sh/vgpu-memory-percentage", "20"}})),
            (Amount{"volcano", Share(200)}));
  EXPECT_EQ(amount(pod_of({{"volcano.sh/gpu-memory", "1024"}})),
            (Amount{"volcano", Share(0), gib(1)}));
  EXPECT_EQ(amount(pod_of({{"volcano.sh/gpu-number", "1"}})), (Amount{"volcano", Share(1000)}));
}

TEST(VolcanoDialect, ReadsQueueAndGroup) {
  const PodRequest request = read(
      pod_of({{"volcano.sh/vgpu-number", "1"}}, {{"scheduling.volcano.sh/queue-name", "team-a"},
                                                 {"scheduling.k8s.io/group-name", "pg"},
                                                 {"scheduling.volcano.sh/group-min-member", "3"},
                                                 {"volcano.sh/vgpu-use-gpuuuid", "GPU-a,GPU-b"},
                                                 {"volcano.sh/preemptable", "false"}}));
  EXPECT_EQ(request.spec.queue, "team-a");
  EXPECT_EQ(request.gang, (PodGang{"pg", 0, 3}));
  EXPECT_THAT(request.spec.devices, ElementsAre("GPU-a", "GPU-b"));
  EXPECT_FALSE(request.spec.preemptible);
}

TEST(VolcanoDialect, RefusesWhatCannotBeMeant) {
  EXPECT_THAT(refusal(pod_of({{"volcano.sh/gpu-memory", "1"}, {"volcano.sh/gpu-number", "1"}})),
              HasSubstr("leave one of them out"));
  EXPECT_THAT(refusal(pod_of({{"volcano.sh/gpu-memory", "1"}, {"volcano.sh/vgpu-number", "1"}})),
              HasSubstr("leave one of them out"));
  EXPECT_THAT(refusal(pod_of({{"volcano.sh/vgpu-number", "3"}, {"volcano.sh/vgpu-cores", "10"}})),
              HasSubstr("a part of each of 3 cards"));
}

// ---- Aliyun, Tencent, KubeShare -----------------------------------------------------------------

TEST(AliyunDialect, MemoryAloneIsTheSizeOfTheSlice) {
  EXPECT_EQ(amount(pod_of({{"aliyun.com/gpu-mem", "3"}})), (Amount{"aliyun", Share(0), gib(3)}));
  EXPECT_EQ(amount(pod_of({{"aliyun.com/gpu-mem", "3"}, {"aliyun.com/gpu-count", "1"}})),
            (Amount{"aliyun", Share(0), gib(3)}));
  EXPECT_EQ(amount(pod_of({{"aliyun.com/gpu-mem", "3"}, {"aliyun.com/gpu-core.percentage", "30"}})),
            (Amount{"aliyun", Share(300), gib(3)}));
  EXPECT_EQ(amount(pod_of({{"aliyun.com/gpu", "4"}})), (Amount{"aliyun", Share(4000)}));
}

TEST(AliyunDialect, RefusesWhatCannotBeMeant) {
  EXPECT_THAT(refusal(pod_of({{"aliyun.com/gpu-mem", "3"}, {"aliyun.com/gpu-count", "2"}})),
              HasSubstr("a part of each of 2 GPUs"));
  EXPECT_THAT(refusal(pod_of({{"aliyun.com/gpu-mem", "3"}, {"aliyun.com/gpu", "1"}})),
              HasSubstr("leave one of them out"));
  EXPECT_THAT(refusal(pod_of({{"aliyun.com/gpu-count", "1"}})), HasSubstr("aliyun.com/gpu-mem"));
  EXPECT_THAT(refusal(pod_of({{"aliyun.com/gpu-core.percentage", "130"}})),
              HasSubstr("write 1 to 100"));
}

TEST(TencentDialect, ReadsCoresAndMemory) {
  EXPECT_EQ(amount(pod_of({{"tencent.com/vcuda-core", "50"}, {"tencent.com/vcuda-memory", "32"}})),
            (Amount{"tencent", Share(500), gib(8)}));
  EXPECT_EQ(amount(pod_of({{"tencent.com/vcuda-core", "200"}})), (Amount{"tencent", Share(2000)}));
  const PodRequest capped =
      read(pod_of({{"tencent.com/vcuda-core", "50"}}, {{"tencent.com/vcuda-core-limit", "50"}}));
  EXPECT_EQ(capped.spec.request.kind(), model::ShareKind::kCap);
  const PodRequest above =
      read(pod_of({{"tencent.com/vcuda-core", "50"}}, {{"tencent.com/vcuda-core-limit", "80"}}));
  EXPECT_EQ(above.spec.request.kind(), model::ShareKind::kGuarantee);
  EXPECT_THAT(above.warnings, ElementsAre(HasSubstr("vcuda-core-limit")));
}

TEST(TencentDialect, RefusesWhatCannotBeMeant) {
  EXPECT_THAT(refusal(pod_of({{"tencent.com/vcuda-core", "150"}})), HasSubstr("multiple of 100"));
  EXPECT_THAT(refusal(pod_of({{"tencent.com/vcuda-memory", "4"}})),
              HasSubstr("tencent.com/vcuda-core"));
  EXPECT_THAT(
      refusal(pod_of({{"tencent.com/vcuda-core", "50"}}, {{"tencent.com/vcuda-core-limit", "30"}})),
      HasSubstr("above the limit"));
}

TEST(KubeShareDialect, ReadsLabels) {
  const PodRequest request = read(pod({.labels = {{"sharedgpu/gpu_request", "0.4"},
                                                  {"sharedgpu/gpu_limit", "0.4"},
                                                  {"sharedgpu/gpu_mem", "3145728"},
                                                  {"sharedgpu/gpu_model", "NVIDIA-A100"},
                                                  {"sharedgpu/priority", "100"},
                                                  {"sharedgpu/group_name", "g"},
                                                  {"sharedgpu/group_headcount", "5"},
                                                  {"sharedgpu/group_threshold", "0.5"}}}));
  EXPECT_EQ(request.dialect, "kubeshare");
  EXPECT_EQ(request.spec.request.share(), Share(400));
  EXPECT_EQ(request.spec.request.memory(), mib(3));
  EXPECT_EQ(request.spec.request.kind(), model::ShareKind::kCap);
  EXPECT_THAT(request.spec.request.allowed_models(), ElementsAre("NVIDIA-A100"));
  EXPECT_EQ(request.spec.priority, 100);
  EXPECT_EQ(request.gang, (PodGang{"g", 5, 3}));
}

TEST(KubeShareDialect, RefusesWhatCannotBeMeant) {
  EXPECT_THAT(refusal(pod({.labels = {{"sharedgpu/gpu_request", "2.0"}}})),
              HasSubstr("divvy.dev/gpu"));
  EXPECT_THAT(
      refusal(pod({.labels = {{"sharedgpu/gpu_request", "0"}, {"sharedgpu/gpu_limit", "1.0"}}})),
      HasSubstr("nothing is guaranteed"));
  EXPECT_THAT(
      refusal(pod({.labels = {{"sharedgpu/gpu_request", "0.5"}, {"sharedgpu/gpu_limit", "0.4"}}})),
      HasSubstr("below gpu_request"));
  EXPECT_THAT(
      refusal(pod({.labels = {{"sharedgpu/gpu_request", "0.5"}, {"sharedgpu/priority", "101"}}})),
      HasSubstr("from 0 to 100"));
}

}  // namespace
}  // namespace divvy::kube
