// The test cluster itself, with what every Kubernetes can do: if one of these fails, the cluster is
// wrong and not Divvy.
#include "kube_cluster.h"

namespace divvy::testing {
namespace {

TEST_F(KubeCluster, RunsAPodThatLogsAndAnswersExecAndIsDeleted) {
  ASSERT_EQ(
      create_pod("cpu", {.command = {"sh", "-c", "echo started; exec sleep infinity"}}).status, 0);
  wait_for("pod/cpu", "condition=Ready");
  EXPECT_EQ(must({"logs", "cpu"}), "started\n");
  EXPECT_EQ(must({"exec", "cpu", "--", "cat", "/proc/1/comm"}), "sleep\n");
  delete_pod("cpu");
  EXPECT_EQ(kubectl({"get", "pod", "cpu"}).status, 1);
}

TEST_F(KubeCluster, ReportsTheExitStatusOfAPod) {
  ASSERT_EQ(create_pod("fails", {.command = {"sh", "-c", "exit 3"}}).status, 0);
  wait_for("pod/fails", "jsonpath={.status.phase}=Failed");
  EXPECT_EQ(must({"get", "pod", "fails", "-o",
                  "jsonpath={.status.containerStatuses[0].state.terminated.exitCode}"}),
            "3");
}

TEST_F(KubeCluster, ReachesAServiceFromTheOtherNode) {
  ASSERT_EQ(create_pod("server", {.command = {"sh", "-c",
                                              "echo hello > /tmp/index.html; exec httpd "
                                              "-f -p 8080 -h /tmp"},
                                  .node = "node-1",
                                  .labels = {{"app", "server"}}})
                .status,
            0);
  must({"expose", "pod", "server", "--port", "80", "--target-port", "8080"});
  wait_for("pod/server", "condition=Ready");
  const std::string address = text_at(get("service", "server"), "/spec/clusterIP");
  ASSERT_FALSE(address.empty());
  // The rules of the other node follow the endpoint by themselves: the client tries until they do.
  ASSERT_EQ(create_pod("client", {.command = {"sh", "-c",
                                              "until wget -q -O - http://" + address +
                                                  "/; do sleep 0.1; done"},
                                  .node = "node-2"})
                .status,
            0);
  wait_for("pod/client", "jsonpath={.status.phase}=Succeeded");
  EXPECT_EQ(must({"logs", "client"}), "hello\n");
}

TEST_F(KubeCluster, GivesAPodTheAddressOfTheApiServerAndATokenForIt) {
  // The address by a connection; the token by using it from here, for busybox's wget knows none of
  // the API server's ciphers.
  ASSERT_EQ(create_pod("asks", {.command = {"sh", "-c",
                                            "nc $KUBERNETES_SERVICE_HOST $KUBERNETES_SERVICE_PORT "
                                            "</dev/null && exec sleep infinity"}})
                .status,
            0);
  wait_for("pod/asks", "condition=Ready");
  const std::string token =
      must({"exec", "asks", "--", "cat", "/var/run/secrets/kubernetes.io/serviceaccount/token"});
  const Outcome who =
      kubectl({"--kubeconfig=/dev/null", "--insecure-skip-tls-verify", "--server",
               must({"config", "view", "-o", "jsonpath={.clusters[0].cluster.server}"}), "--token",
               token, "auth", "whoami", "-o", "jsonpath={.status.userInfo.username}"});
  EXPECT_EQ(who.out, "system:serviceaccount:" + name_space() + ":default") << who.err;
}

TEST_F(KubeCluster, KeepsPodsRunningWhileTheKubeletIsKilled) {
  ASSERT_EQ(create_pod("stays", {.node = "node-2"}).status, 0);
  wait_for("pod/stays", "condition=Ready");
  const auto started = [&] {
    return must({"get", "pod", "stays", "-o",
                 "jsonpath={.status.containerStatuses[0].containerID} "
                 "{.status.containerStatuses[0].restartCount}"});
  };
  const std::string before = started();
  ASSERT_EQ(cluster({"stop", "node-2", "kubelet"}).status, 0);
  ASSERT_EQ(cluster({"start", "node-2", "kubelet"}).status, 0);
  // A new pod on that node says that the kubelet works again.
  ASSERT_EQ(create_pod("next", {.node = "node-2"}).status, 0);
  wait_for("pod/next", "condition=Ready");
  EXPECT_EQ(started(), before);
  EXPECT_EQ(must({"exec", "stays", "--", "cat", "/proc/1/comm"}), "sleep\n");
}

}  // namespace
}  // namespace divvy::testing
