// Slices that are held by a name, and real containers that are given them: podman with runc, on two
// simulated GPUs. The image has a libc, busybox and the programs that are started in it; no driver.
#include <fmt/format.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "container_image.h"
#include "divvyd_machine.h"

namespace divvy::testing {
namespace {

namespace fs = std::filesystem;
namespace json = boost::json;

constexpr std::uint64_t kGib = std::uint64_t{1} << 30;

bool has(const std::string& text, const std::string& piece) {
  return text.find(piece) != std::string::npos;
}

// --- Without a container ---

class HeldSlices : public Machine {
 protected:
  void SetUp() override {
    Machine::SetUp();
    start_daemon();
  }

  json::object create(const std::string& body) {
    Answer answer = ask("POST", "/v1/slices", body);
    EXPECT_EQ(answer.status, 201) << json::serialize(answer.body);
    return answer.body;
  }
  fs::path cdi_file(const std::string& slice) const {
    return folder() / "run/cdi" / ("divvy.dev-slice_" + slice + ".json");
  }
  static std::string socket_of(const json::object& slice) {
    return std::string(slice.at("environment").at("DIVVY_SOCKET").as_string());
  }
  std::size_t held() { return ask("GET", "/v1/slices").body.at("items").as_array().size(); }
};

TEST_F(HeldSlices, AreMadeListedAndDeletedByName) {
  const Outcome made = divvy({"slice", "create", "web", "--gpu", "0.3", "--gpu-mem", "10GiB"});
  EXPECT_EQ(made.status, 0) << made.err;
  EXPECT_EQ(made.out, "divvy.dev/slice=web\n");
  EXPECT_TRUE(fs::exists(cdi_file("web")));
  const Outcome list = divvy({"slice", "list"});
  EXPECT_TRUE(has(list.out, "web ")) << list.out;
  EXPECT_TRUE(has(list.out, "10.0 GiB")) << list.out;
  EXPECT_EQ(divvy({"slice", "list", "-o", "name"}).out, "web\n");
  EXPECT_TRUE(has(divvy({"ps"}).out, "held"));

  const Outcome again = divvy({"slice", "create", "web", "--gpu", "0.3"});
  EXPECT_EQ(again.status, 1);
  EXPECT_TRUE(has(again.err, "there is a tenant named web already")) << again.err;
  const Outcome large = divvy({"slice", "create", "big", "--gpu", "2"});
  EXPECT_EQ(large.status, 75);
  EXPECT_TRUE(has(large.err, "web of ")) << large.err;
  EXPECT_FALSE(fs::exists(cdi_file("big")));

  EXPECT_EQ(divvy({"slice", "delete", "web"}).status, 0);
  EXPECT_FALSE(fs::exists(cdi_file("web")));
  EXPECT_EQ(held(), 0U);
  EXPECT_EQ(divvy({"slice", "delete", "web"}).status, 3);
}

TEST_F(HeldSlices, StayAcrossARestartOfTheDaemon) {
  const json::object slice = create(R"({"name":"web","gpu":"0.3"})");
  struct stat before{};
  const fs::path inner = fs::path(socket_of(slice)).parent_path();
  ASSERT_EQ(::stat(inner.c_str(), &before), 0);
  stop_daemon(SIGKILL);
  fs::remove(cdi_file("web"));
  start_daemon();
  EXPECT_EQ(held(), 1U);
  EXPECT_TRUE(fs::exists(cdi_file("web")));
  // Containers have the folder mounted: it has to be the same one.
  struct stat after{};
  ASSERT_EQ(::stat(inner.c_str(), &after), 0);
  EXPECT_EQ(after.st_ino, before.st_ino);
  FakeProcess process(socket_of(slice));
  ASSERT_TRUE(process.join());
  EXPECT_FALSE(process.refused());
}

TEST_F(HeldSlices, AreNotGivenBackWhileSomebodyUsesThem) {
  const json::object slice = create(R"({"name":"web","gpu":"0.3"})");
  FakeProcess process(socket_of(slice));
  ASSERT_TRUE(process.join());
  const Answer refused = ask("DELETE", "/v1/slices/web");
  EXPECT_EQ(refused.status, 409);
  EXPECT_TRUE(has(json::serialize(refused.body), "end them first"));
  // Its last process ends, and it stays.
  process.hang_up();
  EXPECT_EQ(held(), 1U);
}

TEST_F(HeldSlices, KeepOtherUsersOfTheMachineOut) {
  const json::object slice = create(R"({"name":"web","gpu":"0.3"})");
  const fs::path socket = socket_of(slice);
  struct stat info{};
  ASSERT_EQ(::stat(socket.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777U, 0666U);
  ASSERT_EQ(::stat(socket.parent_path().parent_path().c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777U, 0700U);
}

TEST_F(HeldSlices, OfAnotherUserAreAccessibleByUidOnly) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs root to become somebody else";
  fs::permissions(folder(), fs::perms(0711));
  const auto as_user = [](uid_t user, const std::function<bool()>& does) {
    const pid_t child = ::fork();
    if (child == 0) ::_exit(::setgid(user) == 0 && ::setuid(user) == 0 && does() ? 0 : 1);
    int status = -1;
    ::waitpid(child, &status, 0);
    return status == 0;
  };
  EXPECT_TRUE(as_user(65534, [this] {
    FakeProcess process(socket_of(create(R"({"name":"web","gpu":"0.3"})")));
    return process.join() && !process.refused();
  }));
  const fs::path socket = folder() / "run/t/1/in/divvy.sock";
  struct stat info{};
  ASSERT_EQ(::stat(socket.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777U, 0600U);
  ASSERT_EQ(::stat(socket.parent_path().c_str(), &info), 0);
  EXPECT_EQ(info.st_uid, 0U) << "the user could put a link in the socket's place";
  EXPECT_TRUE(as_user(65533, [&] { return !FakeProcess(socket).join(); }));
  EXPECT_TRUE(as_user(65533, [&] { return ask("DELETE", "/v1/slices/web").status == 403; }));
}

TEST_F(HeldSlices, CdiCleanRemovesTheirFiles) {
  create(R"({"name":"web","gpu":"0.3"})");
  std::ofstream(folder() / "run/cdi/nvidia.yaml") << "kind: nvidia.com/gpu\n";
  EXPECT_EQ(divvy({"cdi", "clean"}).status, 1) << "the daemon still runs";
  EXPECT_TRUE(fs::exists(cdi_file("web")));
  stop_daemon(SIGTERM);
  EXPECT_EQ(divvy({"cdi", "clean"}).status, 0);
  std::vector<fs::path> left;
  for (const auto& entry : fs::directory_iterator(folder() / "run/cdi")) {
    left.push_back(entry.path().filename());
  }
  EXPECT_EQ(left, std::vector<fs::path>{"nvidia.yaml"});
}

TEST_F(HeldSlices, AreNotTenantsWithAProcess) {
  const auto tenant = grant(R"({"gpu":"0.3","name":"job"})");
  EXPECT_EQ(held(), 0U);
  EXPECT_EQ(ask("DELETE", "/v1/slices/job").status, 404);
  EXPECT_EQ(ask("POST", "/v1/slices", R"({"gpu":"0.3"})").status, 400);
  EXPECT_EQ(ask("PUT", "/v1/slices/job").status, 405);
}

TEST_F(HeldSlices, TellOfWholeGpusToo) {
  const Outcome shown = divvy({"cdi", "show"});
  EXPECT_EQ(shown.status, 0) << shown.err;
  std::ifstream file(folder() / "run/cdi/divvy.dev-gpu.json");
  const std::string written{std::istreambuf_iterator<char>(file), {}};
  EXPECT_EQ(shown.out, written);
}

// --- With containers ---

class Containers : public HeldSlices {
 protected:
  void SetUp() override {
    if (::geteuid() != 0) GTEST_SKIP() << "needs root to mount in a namespace of its own";
    HeldSlices::SetUp();
    for (const char* program : {"/usr/bin/podman", "/usr/bin/unshare", "/bin/busybox"}) {
      ASSERT_TRUE(fs::exists(program)) << program << " is missing; packages.txt has it";
    }
    if (start({"/usr/bin/unshare", "-m", "/bin/busybox", "true"}, "unshare").finish().status != 0) {
      GTEST_SKIP() << "the kernel gives us no mount namespace";
    }
    make_container_image(folder() / "image", {DIVVY_PROGRAM, GPULOAD_PROGRAM});
    // Programs in containers need not be root, and the GPUs are only simulated.
    ::chmod((folder() / "gpus").c_str(), 0666);
    ::chmod((folder() / "gpus.alive").c_str(), 0666);
  }

  void TearDown() override {
    if (!folder().empty() && fs::exists(folder() / "storage")) {
      (void)start(podman({"rm", "--all", "--force", "--time", "0"}), "podman-rm").finish();
    }
    if (!folder().empty()) HeldSlices::TearDown();
  }

  // A command in a container. `options` are podman's.
  std::vector<std::string> run(const std::vector<std::string>& options,
                               const std::vector<std::string>& command) const {
    std::vector<std::string> words = container_run_options();
    words.insert(words.begin(), {"run", "--rm"});
    words.insert(words.end(), options.begin(), options.end());
    words.insert(words.end(), {"--rootfs", (folder() / "image").string()});
    words.insert(words.end(), command.begin(), command.end());
    return podman(words);
  }
  Outcome contain(const std::vector<std::string>& options,
                  const std::vector<std::string>& command) {
    return start(run(options, command), "container").finish();
  }

  std::uint64_t used() {
    const Answer answer = ask("GET", "/v1/slices/web");
    return answer.body.at("slices").at(0).at("memoryUsedBytes").to_number<std::uint64_t>();
  }

 private:
  std::vector<std::string> podman(const std::vector<std::string>& words) const {
    std::string line = podman_line(folder());
    for (const std::string& word : words) line += fmt::format(" '{}'", word);
    return {"/usr/bin/unshare", "-m", "/bin/sh", "-c", line};
  }
};

TEST_F(Containers, SeeNoGpuThatTheyDidNotAskFor) {
  create(R"({"name":"web","gpu":"0.3"})");
  const Outcome outcome = contain({}, {"divvy", "gpus"});
  EXPECT_EQ(outcome.status, 1) << outcome.out;
  EXPECT_TRUE(has(outcome.err, "there is no GPU driver")) << outcome.err;
  const Outcome devices = contain({"--device", "divvy.dev/slice=none"}, {"divvy", "gpus"});
  EXPECT_NE(devices.status, 0);
  EXPECT_TRUE(has(devices.err, "divvy.dev/slice=none")) << devices.err;
}

TEST_F(Containers, SeeOneGpuOfTheSizeOfTheirSlice) {
  create(R"({"name":"web","gpu":"0.3","memory":"10GiB"})");
  const Outcome table = contain({"--device", "divvy.dev/slice=web"}, {"divvy", "gpus"});
  EXPECT_EQ(table.status, 0) << table.err;
  EXPECT_TRUE(has(table.out, "NVIDIA H200")) << table.out;
  EXPECT_TRUE(has(table.out, "/ 10.0 GiB")) << table.out;
  EXPECT_TRUE(has(table.out, "1 GPU (simulated)")) << table.out;

  const Outcome load = contain({"--device", "divvy.dev/slice=web"},
                               {"gpuload", "alloc", "--chunk", "64MiB", "--exact"});
  ASSERT_EQ(load.status, 0) << load.err;
  const json::value report = json::parse(load.out);
  const json::object& family = report.at("families").at(0).as_object();
  EXPECT_EQ(family.at("error").as_string(), "CUDA_ERROR_OUT_OF_MEMORY");
  EXPECT_LE(family.at("bytes").to_number<std::uint64_t>(), 10 * kGib);
  EXPECT_GE(family.at("bytes").to_number<std::uint64_t>(), 9 * kGib);
}

TEST_F(Containers, ShareASliceAmongAllTheirProcesses) {
  create(R"({"name":"web","gpu":"0.3","memory":"10GiB"})");
  const std::vector<std::string> device = {"--device", "divvy.dev/slice=web"};
  // Another user than the one who made the slice.
  Program first = start(run({"--device", "divvy.dev/slice=web", "--user", "1000", "--name", "one"},
                            {"gpuload", "alloc", "--limit", "6GiB", "--hold-seconds", "600"}),
                        "first");
  ASSERT_TRUE(eventually([this] { return used() >= 6 * kGib; }));
  const Outcome second = contain(device, {"gpuload", "alloc", "--chunk", "64MiB", "--exact"});
  ASSERT_EQ(second.status, 0) << second.err;
  const json::value report = json::parse(second.out);
  const auto bytes = report.at("families").at(0).at("bytes").to_number<std::uint64_t>();
  EXPECT_LE(bytes, 4 * kGib);
  EXPECT_GE(bytes, 2 * kGib);  // Contexts cost something too

  // The daemon may go and come: the container's process is counted again.
  stop_daemon(SIGKILL);
  start_daemon();
  EXPECT_TRUE(eventually([this] { return used() >= 6 * kGib; }));
  EXPECT_EQ(ask("DELETE", "/v1/slices/web").status, 409);
  first.signal(SIGTERM);
  (void)first.finish();
  EXPECT_TRUE(eventually([this] { return used() == 0; }));
}

TEST_F(Containers, InModeMpsRunAtTheSameTimeEachOnItsPartOfTheGpu) {
  stop_daemon(SIGTERM);
  environment_[0] = "PATH=" DIVVY_MPS_FOLDER ":/usr/bin:/bin";
  start_daemon();
  create(R"({"name":"web","gpu":"0.3","memory":"4GiB","mode":"mps","devices":["0"]})");
  create(R"({"name":"train","gpu":"0.7","memory":"4GiB","mode":"mps","devices":["0"]})");
  // Another user than the daemon's own.
  const auto spin = [this](const std::string& slice) {
    return start(run({"--device", "divvy.dev/slice=" + slice, "--user", "1000", "--name", slice},
                     {"gpuload", "spin", "--us", "5000", "--seconds", "600"}),
                 slice);
  };
  const Program web = spin("web");
  const Program train = spin("train");
  const auto share = [this](const std::string& slice) -> std::int64_t {
    const json::object tenant = ask("GET", "/v1/tenants/" + slice).body;
    const json::value& used = tenant.at("slices").at(0).at("usedShareThousandths");
    return used.is_null() ? 0 : used.to_number<std::int64_t>();
  };
  // Neither could have more than its part alone: together near the whole means at the same time.
  EXPECT_TRUE(eventually([&] {
    const std::int64_t small = share("web");
    const std::int64_t large = share("train");
    return small >= 250 && small <= 350 && large >= 600 && large <= 750;
  }));
}

TEST_F(Containers, GetWholeGpus) {
  const Outcome outcome = contain({"--device", "divvy.dev/gpu=1"}, {"gpuload", "info"});
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  const json::value report = json::parse(outcome.out);
  EXPECT_EQ(report.at("devices").to_number<int>(), 1);
  EXPECT_GE(report.at("memory").at("device_total_bytes").to_number<std::uint64_t>(), 139 * kGib);
}

}  // namespace
}  // namespace divvy::testing
