// `kubectl divvy` against canned documents.
#include "cli/kubectl_app.h"

#include <gtest/gtest.h>

#include <sstream>

#include "cli/exit_codes.h"

namespace divvy::cli {
namespace {

struct Outcome {
  int status = 0;
  std::string out;
  std::string err;
};

Outcome kubectl_divvy(const std::vector<std::string>& arguments, const KubeDocuments& documents) {
  std::ostringstream out;
  std::ostringstream err;
  Terminal terminal;
  terminal.environment = [](const char*) { return std::nullopt; };
  const int status = run_kubectl(arguments, documents, terminal, out, err);
  return {status, out.str(), err.str()};
}

TEST(KubectlDivvy, InspectShowsGpusAndWhoIsOnThem) {
  KubeDocuments documents;
  documents.gpus = [](const KubeTarget&) {
    return R"({"items": [{"node": "gpu-1", "gpu": 0, "uuid": "GPU-0", "model": "NVIDIA H200",
      "memoryBytes": 150323855360, "state": "ok", "heartbeat": "now",
      "held": {"shareThousandths": 500, "memoryBytes": 10737418240},
      "slices": [{"namespace": "a", "pod": "train", "shareThousandths": 300, "state": "held"},
                 {"namespace": "b", "pod": "eval", "shareThousandths": 200,
                  "state": "leaving"}]}]})";
  };
  EXPECT_EQ(kubectl_divvy({"inspect"}, documents).out,
            "NODE   GPU  MODEL        STATE  HELD                 MEMORY  PODS\n"
            "gpu-1    0  NVIDIA H200  ok      0.5  10.0 GiB of 140.0 GiB  a/train 0.3, b/eval 0.2 "
            "(leaving)\n");
  EXPECT_EQ(kubectl_divvy({"inspect", "-o", "name"}, documents).out, "GPU-0\n");
}

TEST(KubectlDivvy, QueueShowsWhyPodsWait) {
  KubeDocuments documents;
  KubeTarget asked;
  documents.waiting = [&](const KubeTarget& target) {
    asked = target;
    return R"({"items": [{"namespace": "a", "pod": "train", "queue": "default", "priority": 5,
      "asks": "0.3 GPU", "since": "03:00", "message": "0.3 GPU is free nowhere"}]})";
  };
  EXPECT_EQ(kubectl_divvy({"queue", "-n", "a", "--context", "c"}, documents).out,
            "NAMESPACE  POD    QUEUE    PRIORITY  ASKS     SINCE  WHY\n"
            "a          train  default         5  0.3 GPU  03:00  0.3 GPU is free nowhere\n");
  EXPECT_EQ(asked.space, "a");
  EXPECT_EQ(asked.context, "c");
  (void)kubectl_divvy({"queue", "-A"}, documents);
  EXPECT_TRUE(asked.all_spaces);
}

TEST(KubectlDivvy, TopShowsSlices) {
  KubeDocuments documents;
  documents.slices = [](const KubeTarget&) { return R"({"items": []})"; };
  EXPECT_EQ(kubectl_divvy({"top"}, documents).out, "no pod holds a slice\n");
}

TEST(KubectlDivvy, ExplainSaysWhyAPodWaits) {
  KubeDocuments documents;
  std::string asked;
  documents.pod = [&](const KubeTarget&, const std::string& pod) {
    asked = pod;
    return R"({"namespace": "a", "pod": "train", "state": "waiting", "asks": "0.3 GPU",
      "dialect": "hami", "queue": "default", "class": "batch", "priority": 0, "slices": [],
      "reason": "NoRoom", "message": "0.3 GPU is free nowhere",
      "events": [{"time": "03:00", "reason": "DivvyQueued", "message": "first of 3"}]})";
  };
  EXPECT_EQ(kubectl_divvy({"explain", "pod/train"}, documents).out,
            "a/train: waiting\n"
            "  asks for  0.3 GPU (hami), queue default, class batch, priority 0\n"
            "  why       0.3 GPU is free nowhere (NoRoom)\n"
            "  03:00  DivvyQueued  first of 3\n");
  EXPECT_EQ(asked, "train");
}

TEST(KubectlDivvy, ErrorsHaveTheirExitStatus) {
  KubeDocuments documents;
  documents.pod = [](const KubeTarget&, const std::string&) -> Result<std::string> {
    return err(ErrorCode::kNotFound, "there is no pod \"x\"");
  };
  const Outcome missing = kubectl_divvy({"explain", "x"}, documents);
  EXPECT_EQ(missing.status, kExitNotFound);
  EXPECT_EQ(missing.err, "kubectl divvy: there is no pod \"x\"\n");
  EXPECT_EQ(kubectl_divvy({"explain"}, documents).status, kExitUsage);
  EXPECT_EQ(kubectl_divvy({"explain", "x", "-o", "nonsense"}, documents).status, kExitUsage);
  EXPECT_EQ(kubectl_divvy({"--help"}, documents).status, kExitOk);
}

TEST(KubectlDivvy, CapacitySaysWhatWouldBeMovedAndWhichNodesAreWaitedFor) {
  KubeDocuments documents;
  documents.capacity = [](const KubeTarget&) {
    return R"({"free": {"gpus": "1.5", "stranded": "1.5", "largestGpus": 0, "largestPart": "0.5"},
      "moves": {"mode": "dry-run", "for": "pod a/train", "node": "gpu-1", "underWay": false,
                "steps": [{"pod": "a/web", "from": "0.5 of gpu0 of gpu-1",
                           "to": "0.5 of gpu0 of gpu-2"}],
                "before": {"stranded": "1.5", "largestGpus": 0},
                "after": {"stranded": "0.5", "largestGpus": 1}},
      "nodesWanted": 2,
      "wanted": [{"kind": "p5", "nodes": 2, "gpusPerNode": 8, "model": "NVIDIA H200", "pods": 3,
                  "for": ["pod a/train", "gang llm in b"]}],
      "notHelped": {"pods": 1, "for": ["pod a/huge"]}})";
  };
  EXPECT_EQ(kubectl_divvy({"capacity"}, documents).out,
            "free      1.5 GPU; 0 whole ones on one node; 1.5 stranded beside parts of pods\n"
            "moves     for pod a/train, which fits on gpu-1 then (dry-run)\n"
            "            a/web from 0.5 of gpu0 of gpu-1 to 0.5 of gpu0 of gpu-2\n"
            "          1 whole GPUs on one node instead of 0, 0.5 stranded instead of 1.5\n"
            "nodes     2 more of p5 (8 x NVIDIA H200) for pod a/train, gang llm in b and 1 more\n"
            "          no such node would help pod a/huge\n");
}

TEST(KubectlDivvy, CapacityOfAQuietCluster) {
  KubeDocuments documents;
  documents.capacity = [](const KubeTarget&) {
    return R"({"free": {"gpus": "4", "stranded": "0", "largestGpus": 2},
      "moves": {"mode": "off"}, "nodesWanted": 0, "wanted": [], "notHelped": {"pods": 0}})";
  };
  EXPECT_EQ(kubectl_divvy({"capacity"}, documents).out,
            "free      4 GPU; 2 whole ones on one node; 0 stranded beside parts of pods\n"
            "moves     none (off)\n"
            "nodes     none are waited for\n");
}

}  // namespace
}  // namespace divvy::cli
