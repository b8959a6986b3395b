// Jobs in real containers: the real daemon on simulated GPUs has podman run an image from scratch.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <signal.h>
#include <unistd.h>

#include <fstream>

#include "container_image.h"
#include "job_machine.h"

namespace divvy::testing {
namespace {

namespace fs = std::filesystem;
namespace json = boost::json;

constexpr const char* kImage = "localhost/divvy-job-test:1";

class JobContainers : public JobMachine {
 protected:
  void SetUp() override {
    if (::geteuid() != 0) GTEST_SKIP() << "needs root to mount in a namespace of its own";
    Machine::SetUp();
    for (const char* program : {"/usr/bin/podman", "/usr/bin/unshare", "/bin/busybox"}) {
      ASSERT_TRUE(fs::exists(program)) << program << " is missing; packages.txt has it";
    }
    if (start({"/usr/bin/unshare", "-m", "/bin/busybox", "true"}, "unshare").finish().status != 0) {
      GTEST_SKIP() << "the kernel gives us no mount namespace";
    }
    fs::create_directories(folder() / "run/cdi");
    fs::create_directories(folder() / "data");
    make_image();
    std::ofstream(folder() / "divvyd.yaml") << fmt::format(
        "privileges: {{drop: false}}\ncontainers:\n  rootless: false\n  podman: [\"{}\"]\n  "
        "options: [\"{}\"]\n",
        podman_program(), fmt::join(container_run_options(), "\", \""));
    start_contained();
  }
  void TearDown() override {
    if (!folder().empty()) {
      JobMachine::TearDown();
    }
  }
  void start_contained() { start_daemon({"--config", (folder() / "divvyd.yaml").string()}); }

  // The job's members are its containers; nothing of them may be left.
  std::string containers() {
    return start({podman_program(), "ps", "--all", "--quiet"}, "podman-ps").finish().out;
  }
  json::object contained(const std::string& script) {
    return {{"gpu", 0.3},
            {"grace", "5s"},
            {"container",
             {{"image", kImage},
              {"mounts", {{{"source", (folder() / "data").string()}, {"target", "/data"}}}}}},
            {"command", {"/bin/busybox", "sh", "-c", script}}};
  }
  std::string logs(std::uint64_t id) { return divvy({"logs", std::to_string(id)}).out; }

 private:
  [[nodiscard]] std::string podman_program() const { return (folder() / "podman.sh").string(); }
  void make_image() {
    make_container_image(folder() / "image", {DIVVY_PROGRAM, GPULOAD_PROGRAM});
    std::ofstream(podman_program()) << "#!/bin/sh\nexec /usr/bin/unshare -m /bin/sh -c '"
                                    << podman_line(folder()) << " \"$@\"' podman \"$@\"\n";
    fs::permissions(podman_program(), fs::perms(0755));
    const std::string tar = (folder() / "image.tar").string();
    ASSERT_EQ(
        start({"/bin/busybox", "tar", "-C", (folder() / "image").string(), "-cf", tar, "."}, "tar")
            .finish()
            .status,
        0);
    const Outcome imported = start({podman_program(), "import", tar, kImage}, "import").finish();
    ASSERT_EQ(imported.status, 0) << imported.err;
    fs::remove(tar);
  }
};

TEST_F(JobContainers, HaveTheirMountsVariablesOutputAndExitCode) {
  std::ofstream(folder() / "data/file") << "mounted\n";
  json::object spec = contained(
      "busybox cat /data/file; echo $GREETING $DIVVY_JOB_ID; echo made > /data/new; exit 6");
  spec["environment"] = {{"GREETING", "hello"}};
  const auto id = submit(spec);
  ASSERT_TRUE(becomes(id, "failed"));
  EXPECT_EQ(exit_code(id), 6) << logs(id);
  EXPECT_EQ(logs(id), fmt::format("mounted\nhello {}\n", id));
  EXPECT_EQ(read_file("data/new"), "made\n");
  EXPECT_EQ(containers(), "");
  EXPECT_EQ(tenants(), 0U);
}

TEST_F(JobContainers, HaveSecretsThatDivvyWritesNowhere) {
  std::ofstream(folder() / "typed") << "hf_1=2 3\n";
  ASSERT_EQ(divvy({"secret", "set", "hub", "--from-file", (folder() / "typed").string()}).status,
            0);
  fs::remove(folder() / "typed");
  json::object spec = contained("test \"$HF_TOKEN\" = 'hf_1='\"2 3\" && echo given");
  spec["environment"] = {{"GREETING", "hello"}};
  spec["secrets"] = {{"HF_TOKEN", "hub"}};
  const auto id = submit(spec);
  ASSERT_TRUE(becomes(id, "succeeded")) << logs(id) << history(id);
  EXPECT_EQ(logs(id), "given\n");
  for (const auto& entry : fs::recursive_directory_iterator(folder() / "run")) {
    if (!entry.is_regular_file()) continue;
    std::ifstream file(entry.path(), std::ios::binary);
    const std::string text(std::istreambuf_iterator<char>(file), {});
    EXPECT_FALSE(has(text, "hf_1=2 3")) << entry.path();
  }

  // What no file of variables can hold is said, and not put on a command line.
  std::ofstream(folder() / "typed") << "two\nlines\n";
  ASSERT_EQ(divvy({"secret", "set", "hub", "--from-file", (folder() / "typed").string()}).status,
            0);
  const auto refused = submit(spec);
  ASSERT_TRUE(becomes(refused, "failed"));
  EXPECT_TRUE(has(logs(refused) + history(refused), "secrets.HF_TOKEN: it has quotes"))
      << logs(refused) << history(refused);
}

TEST_F(JobContainers, SeeTheirSliceAndNoMore) {
  json::object spec = contained("exec gpuload alloc --chunk 64MiB --exact");
  spec["gpu_memory"] = "4GiB";
  const auto id = submit(spec);
  ASSERT_TRUE(becomes(id, "succeeded")) << logs(id);
  const json::value report = json::parse(logs(id));
  const auto bytes = report.at("families").at(0).at("bytes").to_number<std::uint64_t>();
  EXPECT_LE(bytes, std::uint64_t{4} << 30);
  EXPECT_GE(bytes, std::uint64_t{3} << 30);
}

TEST_F(JobContainers, InModeMpsAreClientsOfTheDaemonOfTheirGpu) {
  stop_daemon(SIGTERM);
  environment_[0] = "PATH=" DIVVY_MPS_FOLDER ":/usr/bin:/bin";
  start_contained();
  json::object spec = contained("exec gpuload info");
  spec["mode"] = "mps";
  const auto id = submit(spec);
  ASSERT_TRUE(becomes(id, "succeeded")) << logs(id);
  EXPECT_TRUE(is_mps_client(logs(id))) << logs(id);
  spec["mode"] = "timeslice";
  const auto turns = submit(spec);
  ASSERT_TRUE(becomes(turns, "succeeded")) << logs(turns);
  EXPECT_FALSE(is_mps_client(logs(turns))) << logs(turns);
}

TEST_F(JobContainers, RunOnWhenTheDaemonIsKilledAndAreFoundAgain) {
  const auto id = submit(contained(
      "echo x >> /data/begun; while [ ! -e /data/go ]; do busybox sleep 0.1; done; exit 9"));
  ASSERT_TRUE(becomes(id, "running"));
  ASSERT_TRUE(eventually([&] { return starts("data/begun") == 1; }));
  const std::string before = containers();
  stop_daemon(SIGKILL);
  start_contained();
  EXPECT_EQ(state(id), "running");
  EXPECT_EQ(containers(), before);
  const Outcome inside =
      divvy({"exec", std::to_string(id), "--", "/bin/busybox", "cat", "/data/begun"});
  EXPECT_EQ(inside.status, 0) << inside.err;
  EXPECT_EQ(inside.out, "x\n");
  stop_daemon(SIGKILL);
  std::ofstream(folder() / "data/go") << "now\n";
  start_contained();
  ASSERT_TRUE(becomes(id, "failed"));
  EXPECT_EQ(exit_code(id), 9);
  EXPECT_EQ(starts("data/begun"), 1);
  EXPECT_EQ(containers(), "");
}

TEST_F(JobContainers, AreEndedWithTheirJob) {
  const auto id = submit(contained("echo ready; exec busybox sleep 1000"));
  ASSERT_TRUE(eventually([&] { return has(logs(id), "ready"); }));
  EXPECT_EQ(divvy({"delete", std::to_string(id)}).status, 0);
  ASSERT_TRUE(becomes(id, "cancelled"));
  EXPECT_EQ(containers(), "");
  EXPECT_TRUE(eventually([&] { return tenants() == 0; }));
}

TEST_F(JobContainers, OfAnImageThatIsNotThereFailWithTheReason) {
  json::object spec = contained("true");
  spec["container"].as_object()["image"] = "localhost/no-such-image:1";
  const auto id = submit(spec);
  ASSERT_TRUE(becomes(id, "failed"));
  EXPECT_EQ(exit_code(id), 125);
  EXPECT_TRUE(has(logs(id), "no-such-image")) << logs(id);
}

}  // namespace
}  // namespace divvy::testing
