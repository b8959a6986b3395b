// Containers of users of root's daemon as it is after an installation: nothing configured, the
// privileges dropped, podman rootless for the job's own user. Users, their subordinate numbers and
// their homes are the test's, in a mount namespace of the daemon.
#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>

#include "container_image.h"
#include "job_machine.h"

namespace divvy::testing {
namespace {

namespace fs = std::filesystem;
namespace json = boost::json;

struct TestUser {
  const char* name;
  uid_t uid;
  gid_t gid;
  bool has_range;
};
constexpr TestUser kAda{"ada", 45'671, 45'681, true};
constexpr TestUser kBob{"bob", 45'672, 45'682, true};
constexpr TestUser kEve{"eve", 45'673, 45'683, false};

class UserContainers : public JobMachine {
 protected:
  void SetUp() override {
    if (::geteuid() != 0) GTEST_SKIP() << "needs root, whose daemon has other users";
    for (const char* program : {"/usr/bin/podman", "/usr/bin/unshare", "/bin/busybox"}) {
      ASSERT_TRUE(fs::exists(program)) << program << " is missing; packages.txt has it";
    }
    Machine::SetUp();
    const char* probe = "unshare -m true && setpriv --reuid 65534 --clear-groups unshare -Um true";
    if (start({"/bin/sh", "-c", probe}, "unshare").finish().status != 0) {
      GTEST_SKIP() << "the kernel gives users no namespaces";
    }
    install_for_others();
    fs::create_directories(folder() / "run/cdi");
    make_users();
    make_image();
    start_daemon_of_root();
  }
  void TearDown() override {
    if (!folder().empty()) JobMachine::TearDown();
  }

  void start_daemon_of_root() {
    std::string line = "mkdir -p /run/cdi";
    for (const char* name : {"passwd", "group", "subuid", "subgid"}) {
      line += fmt::format(" && mount --bind {0}/etc/{1} /etc/{1}", folder().string(), name);
    }
    line += fmt::format(" && mount --bind {}/run/cdi /run/cdi && exec {}/bin/divvyd",
                        folder().string(), folder().string());
#ifdef DIVVY_SANITIZED
    std::ofstream(folder() / "divvyd.yaml") << fmt::format(
        "containers:\n  options: [\"{}\"]\n", fmt::join(container_run_options(), "\", \""));
    line += fmt::format(" --config {}/divvyd.yaml", folder().string());
#endif
    start_daemon_as({"/usr/bin/unshare", "-m", "/bin/sh", "-c", line});
  }

  [[nodiscard]] fs::path home(const TestUser& user) const { return folder() / "home" / user.name; }
  Outcome divvy_as(const TestUser& user, const std::vector<std::string>& arguments) {
    std::vector<std::string> words = {"/usr/bin/setpriv", fmt::format("--reuid={}", user.uid),
                                      fmt::format("--regid={}", user.gid), "--clear-groups",
                                      (folder() / "bin/divvy").string()};
    words.insert(words.end(), arguments.begin(), arguments.end());
    return start(words, user.name).finish();
  }
  // `options` of submit before the script.
  Outcome submit_as(const TestUser& user, std::vector<std::string> options,
                    const std::string& script) {
    options.insert(options.begin(), {"submit", "-o", "name", "--image", image_});
    if (std::ranges::find(options, "--gpu") == options.end()) {
      options.insert(options.end(), {"--gpu", "0.3"});
    }
    options.insert(options.end(), {"--", "/bin/busybox", "sh", "-c", script});
    return divvy_as(user, options);
  }
  static std::uint64_t number_of(const Outcome& submitted) {
    EXPECT_EQ(submitted.status, 0) << submitted.err;
    const std::size_t digit = submitted.out.find_first_of("0123456789");
    return digit == std::string::npos ? 0 : std::stoull(submitted.out.substr(digit));
  }
  // Without what podman says about an image that it unpacks.
  std::string logs(std::uint64_t id) {
    const std::string all = divvy({"logs", std::to_string(id)}).out;
    constexpr std::string_view kUnpacked = "Storing signatures\n";
    const std::size_t at = all.rfind(kUnpacked);
    return at == std::string::npos ? all : all.substr(at + kUnpacked.size());
  }
  // What podman knows of containers of the user.
  std::string containers_of(const TestUser& user) const {
    std::string text;
    std::error_code code;
    for (const auto& entry : fs::recursive_directory_iterator(home(user), code)) {
      if (entry.path().filename() != "containers.json") continue;
      std::ifstream file(entry.path());
      text += std::string(std::istreambuf_iterator<char>(file), {});
    }
    return text;
  }

  std::string image_;

 private:
  void make_users() const {
    fs::create_directories(folder() / "etc");
    for (const char* name : {"passwd", "group"}) {
      fs::copy_file(fs::path("/etc") / name, folder() / "etc" / name);
    }
    std::ofstream passwd(folder() / "etc/passwd", std::ios::app);
    std::ofstream group(folder() / "etc/group", std::ios::app);
    std::ofstream subuid(folder() / "etc/subuid");
    std::ofstream subgid(folder() / "etc/subgid");
    std::uint32_t next = 700'000;
    for (const TestUser& user : {kAda, kBob, kEve}) {
      passwd << fmt::format("{}:x:{}:{}::{}:/bin/sh\n", user.name, user.uid, user.gid,
                            home(user).string());
      group << fmt::format("{}:x:{}:\n", user.name, user.gid);
      fs::create_directories(home(user));
      ASSERT_EQ(::chown(home(user).c_str(), user.uid, user.gid), 0);
      fs::permissions(home(user), fs::perms(0700));
      if (!user.has_range) continue;
      for (std::ofstream* file : {&subuid, &subgid}) {
        *file << fmt::format("{}:{}:65536\n", user.name, next);
      }
      next += 65'536;
    }
  }
  // A file that everybody may read, as one of a registry would be.
  void make_image() {
    make_container_image(folder() / "image", {DIVVY_PROGRAM, GPULOAD_PROGRAM});
    const std::string base = folder().string();
    const std::string line = fmt::format(
        "cd {0} && tar -C image -cf image.tar . && podman() {{ /usr/bin/podman --root {0}/storage "
        "--runroot {0}/runroot --tmpdir {0}/podman --storage-driver vfs --cgroup-manager cgroupfs "
        "--events-backend none \"$@\"; }} && podman import image.tar localhost/x:1 && podman save "
        "--format oci-archive -o {0}/image.oci localhost/x:1 && rm -rf image.tar storage && chmod "
        "0644 image.oci",
        base);
    const Outcome made = start({"/bin/sh", "-c", line}, "image").finish();
    ASSERT_EQ(made.status, 0) << made.err;
    image_ = "oci-archive:" + (folder() / "image.oci").string();
  }
};

TEST_F(UserContainers, RunForEveryUserWithNothingConfigured) {
  std::ifstream file(fmt::format("/proc/{}/status", daemon_pid()));
  const std::string status{std::istreambuf_iterator<char>(file), {}};
  ASSERT_TRUE(has(status, "NoNewPrivs:\t1")) << "this is about a daemon as it is by default";
  for (const TestUser& user : {kAda, kBob}) {
    const std::string mount = fmt::format("{}:/home", home(user).string());
    std::ofstream(home(user) / "typed") << "of " << user.name << "\n";
    const Outcome kept =
        divvy_as(user, {"secret", "set", "hub", "--from-file", (home(user) / "typed").string()});
    ASSERT_EQ(kept.status, 0) << kept.err;
    const auto id = number_of(submit_as(
        user,
        {"--mount", mount, "--env", "TOKEN=hidden", "--secret", "HUB=hub", "--ulimit", "nofile=64",
         "--shm-size", "2MiB"},
        "busybox id -u; busybox id -g; echo $TOKEN $HUB; ulimit -n; echo made > /home/file; "
        "busybox grep NoNewPrivs /proc/self/status; busybox mount | busybox grep -c "
        "'/dev/shm.*size=2048k'; exit 6"));
    ASSERT_TRUE(becomes(id, "failed"));
    EXPECT_EQ(exit_code(id), 6) << logs(id) << history(id);
    EXPECT_EQ(logs(id), fmt::format("{}\n{}\nhidden of {}\n64\nNoNewPrivs:\t1\n1\n", user.uid,
                                    user.gid, user.name));
    struct stat info{};
    ASSERT_EQ(::stat((home(user) / "file").c_str(), &info), 0);
    EXPECT_EQ(info.st_uid, user.uid);
    EXPECT_FALSE(has(containers_of(user), "names")) << containers_of(user);
  }
  EXPECT_EQ(tenants(), 0U);
}

TEST_F(UserContainers, SeeTheirSliceAndNoMore) {
  const auto id = number_of(submit_as(kAda, {"--gpu", "0.3", "--gpu-mem", "4GiB"},
                                      "exec gpuload alloc --chunk 64MiB --exact"));
  ASSERT_TRUE(becomes(id, "succeeded")) << logs(id);
  const json::value report = json::parse(logs(id));
  const auto bytes = report.at("families").at(0).at("bytes").to_number<std::uint64_t>();
  EXPECT_LE(bytes, std::uint64_t{4} << 30);
  EXPECT_GE(bytes, std::uint64_t{3} << 30);
}

TEST_F(UserContainers, InModeMpsAreClientsOfTheDaemonOfTheirGpu) {
  stop_daemon(SIGTERM);
  environment_[0] = "PATH=" DIVVY_MPS_FOLDER ":/usr/bin:/bin";
  start_daemon_of_root();
  const auto id = number_of(submit_as(kAda, {"--mode", "mps"}, "exec gpuload info"));
  ASSERT_TRUE(becomes(id, "succeeded")) << logs(id);
  EXPECT_TRUE(is_mps_client(logs(id))) << logs(id);
}

TEST_F(UserContainers, AreRefusedAtOnceWithTheRemedyWhereTheyCannotRun) {
  const Outcome refused = submit_as(kEve, {}, "true");
  EXPECT_NE(refused.status, 0);
  EXPECT_TRUE(has(refused.err, "eve has no range of numbers in /etc/subuid")) << refused.err;
  EXPECT_TRUE(has(refused.err, "usermod --add-subuids 831072-896607")) << refused.err;
  const Outcome root = divvy({"submit", "--image", image_, "--gpu", "0.3", "--", "true"});
  EXPECT_NE(root.status, 0);
  EXPECT_TRUE(has(root.err, "submit as another user")) << root.err;
  const Outcome port = submit_as(kAda, {"--publish", "80:80"}, "true");
  EXPECT_NE(port.status, 0);
  EXPECT_TRUE(has(port.err, "container.ports")) << port.err;
  EXPECT_EQ(ask("GET", "/v1/jobs").body.at("items").as_array().size(), 0U);
}

TEST_F(UserContainers, ReachNothingThatTheirUserCannot) {
  std::ofstream(folder() / "secret") << "root's\n";
  fs::permissions(folder() / "secret", fs::perms(0600));
  const auto read =
      number_of(submit_as(kAda, {"--mount", fmt::format("{}:/s", (folder() / "secret").string())},
                          "busybox cat /s || exit 7"));
  ASSERT_TRUE(becomes(read, "failed"));
  EXPECT_EQ(exit_code(read), 7) << logs(read);
  EXPECT_FALSE(has(logs(read), "root's"));
  std::ofstream(home(kBob) / "file") << "bob's\n";
  const auto bobs = number_of(
      submit_as(kAda, {"--mount", fmt::format("{}/file:/s", home(kBob).string())}, "true"));
  ASSERT_TRUE(becomes(bobs, "failed"));
  EXPECT_TRUE(has(logs(bobs), "permission denied")) << logs(bobs);
  // An image that only root can read.
  ::chmod((folder() / "image.oci").c_str(), 0600);
  const auto image = number_of(submit_as(kAda, {}, "true"));
  ASSERT_TRUE(becomes(image, "failed"));
  EXPECT_TRUE(has(logs(image), "permission denied")) << logs(image);
}

TEST_F(UserContainers, CanBeEnteredAndEnded) {
  const auto id = number_of(
      submit_as(kAda, {}, "trap 'exit 0' TERM; echo ready; while :; do busybox sleep 0.05; done"));
  ASSERT_TRUE(eventually([&] { return has(logs(id), "ready"); })) << logs(id);
  const std::string job = std::to_string(id);
  const Outcome inside = divvy_as(kAda, {"exec", job, "--", "/bin/busybox", "sh", "-c",
                                         "busybox id -u; busybox cat /proc/1/comm"});
  EXPECT_EQ(inside.out, fmt::format("{}\nbusybox\n", kAda.uid)) << inside.err;
  EXPECT_NE(divvy_as(kBob, {"exec", job, "--", "/bin/busybox", "true"}).status, 0);
  EXPECT_EQ(divvy_as(kAda, {"delete", job}).status, 0);
  ASSERT_TRUE(becomes(id, "cancelled"));
  EXPECT_FALSE(has(containers_of(kAda), "names")) << containers_of(kAda);
  EXPECT_TRUE(eventually([&] { return tenants() == 0; }));
}

TEST_F(UserContainers, RunOnWithoutTheDaemonAndAreEndedWithTheirShepherd) {
  const auto id = number_of(submit_as(kAda, {}, "echo ready; exec busybox sleep 1000"));
  ASSERT_TRUE(eventually([&] { return has(logs(id), "ready"); })) << logs(id);
  stop_daemon(SIGKILL);
  start_daemon_of_root();
  EXPECT_EQ(state(id), "running");
  std::ifstream file(folder() / fmt::format("run/state/members/job-{}.1.0/watch", id));
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  ASSERT_FALSE(text.empty());
  const auto shepherd = json::parse(text).at("shepherd").at("pid").to_number<pid_t>();
  ASSERT_GT(shepherd, 1);
  ::kill(shepherd, SIGKILL);
  ASSERT_TRUE(becomes(id, "failed"));
  EXPECT_FALSE(has(containers_of(kAda), "names")) << containers_of(kAda) << daemon_log();
  EXPECT_TRUE(eventually([&] { return tenants() == 0; }));
}

TEST_F(UserContainers, ThatUseMoreMemoryThanTheyMayAreToldSo) {
  const auto id = number_of(submit_as(kAda, {"--ram", "32MiB"}, "exec busybox tail /dev/zero"));
  // Where nothing can be limited, this would never end.
  const json::object members = ask("GET", fmt::format("/v1/jobs/{}/members", id)).body;
  if (has(logs(id), "no limit on memory")) GTEST_SKIP() << logs(id);
  ASSERT_TRUE(becomes(id, "failed")) << json::serialize(members);
  EXPECT_TRUE(
      has(logs(id) + history(id) + json::serialize(job(id)), "needed more than its limit of 32MiB"))
      << json::serialize(job(id));
}

TEST_F(UserContainers, HaveAsMuchLockedMemoryAsTheDaemonAtMost) {
  rlimit own{};
  ASSERT_EQ(::getrlimit(RLIMIT_MEMLOCK, &own), 0);
  const bool unlimited = own.rlim_max == RLIM_INFINITY;
  for (const char* word : {"memlock=-1", "memlock=unlimited"}) {
    const Outcome submitted = submit_as(kAda, {"--ulimit", word}, "ulimit -l");
    if (unlimited) {
      const auto id = number_of(submitted);
      ASSERT_TRUE(becomes(id, "succeeded")) << logs(id);
      EXPECT_EQ(logs(id), "unlimited\n");
    } else {
      EXPECT_NE(submitted.status, 0);
      EXPECT_TRUE(has(submitted.err, "memlock cannot be unlimited")) << submitted.err;
    }
  }
  if (unlimited) return;
  const auto id = number_of(
      submit_as(kAda, {"--ulimit", fmt::format("memlock={}", own.rlim_max)}, "ulimit -l"));
  ASSERT_TRUE(becomes(id, "succeeded")) << logs(id);
  EXPECT_EQ(logs(id), fmt::format("{}\n", own.rlim_max / 1024));
}

}  // namespace
}  // namespace divvy::testing
