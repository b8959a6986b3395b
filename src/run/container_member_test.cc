// Members in real containers: podman with runc, and an image from scratch with busybox in it.
#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>

#include "run/shepherd_client.h"
#include "run/testing.h"

namespace divvy::run {
namespace {

namespace fs = std::filesystem;
using std::chrono::seconds;

constexpr const char* kImage = "localhost/divvy-run-test:1";

// A limit that we can set: the container's may not be above our own.
std::string limit(const char* name, decltype(RLIMIT_NOFILE) what) {
  rlimit value{};
  ::getrlimit(what, &value);
  const auto number = std::min<rlim_t>(value.rlim_max, 20'000);
  return fmt::format("{}={}:{}", name, number, number);
}

int run_shell(const std::string& line) {
  const int status = std::system(line.c_str());
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

class ContainerMembers : public RuntimeTest {
 protected:
  void SetUp() override {
    if (::geteuid() != 0) GTEST_SKIP() << "needs root to mount in a namespace of its own";
    for (const char* program : {"/usr/bin/podman", "/bin/busybox", "/usr/bin/unshare"}) {
      ASSERT_TRUE(fs::exists(program)) << program << " is missing; packages.txt has it";
    }
    if (run_shell("unshare -m /bin/busybox true 2>/dev/null") != 0) {
      GTEST_SKIP() << "the kernel gives us no mount namespace";
    }
    make_image();
    auto settings = options();
    settings.podman.program = podman_;
    settings.podman.run_options = {"--network", "none",
                                   "--ulimit",  limit("nofile", RLIMIT_NOFILE),
                                   "--ulimit",  limit("nproc", RLIMIT_NPROC)};
    runtime_ = *MachineRuntime::create(settings, clock_);
  }
  void TearDown() override {
    if (runtime_) RuntimeTest::TearDown();
    if (!podman_.empty()) (void)podman("rm --all --force --time 0");
  }

  // Its own storage, and devices from a folder of the test's, which podman looks for in a fixed
  // place.
  void make_image() {
    const std::string base = folder_.path().string();
    fs::create_directories(folder_.path() / "cdi");
    podman_ = {"/usr/bin/unshare",
               "-m",
               "/bin/sh",
               "-c",
               fmt::format("mkdir -p /run/cdi && mount --bind {0}/cdi /run/cdi && exec "
                           "/usr/bin/podman --root {0}/storage --runroot {0}/runroot --tmpdir "
                           "{0}/podman --storage-driver vfs --runtime runc --cgroup-manager "
                           "cgroupfs --events-backend none \"$@\"",
                           base),
               "podman"};
    const fs::path image = folder_.path() / "image";
    for (const char* name : {"bin", "etc", "tmp", "proc", "sys", "dev", "run"}) {
      fs::create_directories(image / name);
    }
    fs::copy_file("/bin/busybox", image / "bin/busybox");
    for (const char* name : {"sh", "cat", "sleep", "id", "env", "tail", "echo", "pwd", "tar",
                             "setsid", "mount", "true"}) {
      fs::create_symlink("busybox", image / "bin" / name);
    }
    ASSERT_EQ(run_shell(fmt::format("tar -C {}/image -c . > {}/image.tar", base, base)), 0);
    ASSERT_EQ(podman(fmt::format("import {}/image.tar {} >/dev/null 2>{}/import.log", base, kImage,
                                 base)),
              0)
        << "podman import failed";
  }
  int podman(const std::string& arguments) const {
    std::string line;
    for (const std::string& word : podman_) line += fmt::format("'{}' ", quoted(word));
    return run_shell(line + arguments);
  }
  static std::string quoted(const std::string& word) {
    std::string result;
    for (const char c : word) result += c == '\'' ? std::string("'\\''") : std::string(1, c);
    return result;
  }

  static MemberStart contained(std::uint64_t job, const std::string& script) {
    MemberStart member;
    member.key = key(job);
    member.command = {"/bin/sh", "-c", script};
    member.uid = 65534;
    member.gid = 65533;
    member.container.emplace();
    member.container->image = kImage;
    return member;
  }
  bool container_exists(std::uint64_t job) const {
    return podman("container exists " + const_cast<ContainerMembers*>(this)->name_of(key(job))) ==
           0;
  }

  std::vector<std::string> podman_;
};

TEST_F(ContainerMembers, RunAsTheUserWithTheirDevicesMountsVariablesAndLimits) {
  // A device of the kind that a slice is (CDI).
  std::ofstream(folder_.path() / "cdi/test.dev.json")
      << R"({"cdiVersion":"0.5.0","kind":"test.dev/slice","devices":[{"name":"one",)"
      << R"("containerEdits":{"env":["FROM_DEVICE=yes"]}}]})";
  fs::create_directories(folder_.path() / "data");
  std::ofstream(folder_.path() / "data/file") << "mounted\n";
  MemberStart member = contained(
      1,
      "id -u; id -g; cat /d/file; echo $SECRET/$FROM_DEVICE; pwd; ulimit -n; "
      "mount | grep -c 'shm.*size=2048k'; echo x > /d/new 2>/dev/null || echo readonly; exit 6");
  member.cdi_devices = {"test.dev/slice=one"};
  member.container->mounts = {{(folder_.path() / "data").string(), "/d", true}};
  member.environment = {{"SECRET", "quite"}};
  member.working_directory = "/tmp";
  member.limits.ulimits = {{"nofile", {64, 64}}};
  member.limits.shm = mib(2);
  const model::MemberEnd end = run(member);
  EXPECT_EQ(end.exit_code, 6) << end.reason;
  const std::string text = output(key(1));
  EXPECT_EQ(text.substr(0, text.find("64\n") + 3), "65534\n65533\nmounted\nquite/yes\n/tmp\n64\n");
  EXPECT_NE(text.find("readonly"), std::string::npos) << text;
  EXPECT_FALSE(container_exists(1));
}

TEST_F(ContainerMembers, AreEndedAndLeaveNothing) {
  start(contained(1,
                  "trap 'echo asked; exit 7' TERM; (setsid sleep 1000 &); echo ready; "
                  "while :; do sleep 1; done"));
  await_line(key(1), "ready");
  EXPECT_TRUE(runtime_->stop(key(1), seconds(600)));
  EXPECT_EQ(await_end(key(1)).end->exit_code, 7);
  EXPECT_FALSE(container_exists(1));

  start(contained(2, "trap 'echo ignored' TERM; echo ready; while :; do sleep 1; done"));
  await_line(key(2), "ready");
  EXPECT_TRUE(runtime_->stop(key(2), seconds(600)));
  await_line(key(2), "ignored");
  EXPECT_TRUE(runtime_->stop(key(2), seconds(0)));
  const MemberReport report = await_end(key(2));
  EXPECT_FALSE(report.end->succeeded());
  EXPECT_NE(report.end->reason.find("killed: "), std::string::npos) << report.end->reason;
  EXPECT_FALSE(container_exists(2));
}

TEST_F(ContainerMembers, ThatUseMoreMemoryThanTheyMayAreToldSo) {
  MemberStart member = contained(1, "");
  member.command = {"tail", "/dev/zero"};
  member.limits.ram = mib(32);
  const model::MemberEnd end = run(member);
  EXPECT_FALSE(end.succeeded());
  EXPECT_NE(end.reason.find("needed more than its limit of 32MiB"), std::string::npos)
      << end.reason;
}

TEST_F(ContainerMembers, OutliveTheDaemonAndAreEndedWhenTheirShepherdIsKilled) {
  fs::create_directories(folder_.path() / "data");
  MemberStart member = contained(1, "echo ready; sleep 1000");
  member.container->mounts = {{(folder_.path() / "data").string(), "/d", false}};
  start(member);
  await_line(key(1), "ready");
  const sys::ProcessMark shepherd = watch_of(key(1)).shepherd;
  ASSERT_GT(shepherd.pid, 1);
  ::kill(shepherd.pid, SIGKILL);
  EXPECT_EQ(await_end(key(1)).phase, MemberPhase::kLost);
  EXPECT_FALSE(container_exists(1));
  EXPECT_TRUE(processes_of(key(1)).empty());
}

TEST_F(ContainerMembers, CanBeEntered) {
  start(contained(1, "echo ready; exec sleep 1000"));
  await_line(key(1), "ready");
  int ends[2];
  ASSERT_EQ(::pipe2(ends, O_CLOEXEC), 0);
  UniqueFd reader(ends[0]);
  UniqueFd writer(ends[1]);
  const UniqueFd null(::open("/dev/null", O_RDWR | O_CLOEXEC));
  const auto folder = MemberFolder::open(runtime_->folder_of(key(1)));
  ASSERT_TRUE(folder);
  auto client = ShepherdClient::begin(*folder);
  ASSERT_TRUE(client);
  ASSERT_TRUE(client->exec({{"sh", "-c", "echo $A; id -u; exit 5"}, {{"A", "inside"}}, "", {}},
                           {null.get(), writer.get(), writer.get()}));
  EXPECT_FALSE(client->signal(SIGSTOP)) << "root's podman would stand still with its locks";
  writer.reset();
  const auto end = client->ended(kTestPatience);
  ASSERT_TRUE(end && *end);
  EXPECT_EQ((*end)->exit_code, 5);
  char text[64] = {};
  for (std::size_t got = 0; got < sizeof text - 1;) {
    const ssize_t more = ::read(reader.get(), text + got, sizeof text - 1 - got);
    if (more <= 0) break;
    got += static_cast<std::size_t>(more);
  }
  EXPECT_EQ(std::string(text), "inside\n65534\n");
}

TEST_F(ContainerMembers, MountNothingThatTheirUserCannotReach) {
  fs::create_directories(folder_.path() / "private/inner");
  fs::permissions(folder_.path() / "private", fs::perms(0700));
  MemberStart member = contained(1, "true");
  member.container->mounts = {{(folder_.path() / "private/inner").string(), "/d", false}};
  const model::MemberEnd end = run(member);
  EXPECT_EQ(end.exit_code, 126);
  EXPECT_NE(end.reason.find("cannot reach"), std::string::npos) << end.reason;
}

// The socket is the user's, and the folder of root's that is mounted is not.
TEST_F(ContainerMembers, CopyWithTheRightsOfTheirUser) {
  const fs::path data = folder_.path() / "data";
  fs::create_directories(data);
  std::ofstream(data / "secret") << "root's\n";
  std::ofstream(data / "public") << "everybody's\n";
  fs::permissions(data / "secret", fs::perms(0600));
  fs::create_directories(folder_.path() / "new/inner");
  std::ofstream(folder_.path() / "new/secret") << "overwritten\n";
  MemberStart member = contained(1, "echo ready; exec sleep 1000");
  member.container->mounts = {{data.string(), "/d", false}};
  start(member);
  await_line(key(1), "ready");
  const auto copy = [this](const CopyRequest& request, const fs::path& stream) {
    const UniqueFd file(::open(stream.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
    const UniqueFd null(::open("/dev/null", O_RDWR | O_CLOEXEC));
    auto client = ShepherdClient::begin(runtime_->folder_of(key(1)));
    const int in = request.out ? null.get() : file.get();
    const int out = request.out ? file.get() : null.get();
    if (!client || !client->copy(request, {in, out, null.get()})) return -1;
    const auto end = client->ended(kTestPatience);
    return end && *end ? (*end)->exit_code : -1;
  };
  const std::string base = folder_.path().string();
  EXPECT_NE(copy({"/d/secret", true}, base + "/out.tar"), 0);
  EXPECT_EQ(run_shell("grep -q \"root's\" " + base + "/out.tar"), 1);
  ASSERT_EQ(run_shell(fmt::format("tar -C {0}/new -cf {0}/in.tar secret", base)), 0);
  EXPECT_NE(copy({"/d", false}, base + "/in.tar"), 0);
  EXPECT_EQ(run_shell("grep -q overwritten " + base + "/data/secret"), 1);
  // What the user may, works.
  EXPECT_EQ(copy({"/d/public", true}, base + "/public.tar"), 0);
  EXPECT_EQ(run_shell("tar -tf " + base + "/public.tar | grep -qx public"), 0);
  EXPECT_EQ(copy({"/dev/shm", false}, base + "/public.tar"), 0);
}

// A link that the user points elsewhere after it was looked at: what was looked at is mounted.
TEST_F(ContainerMembers, MountWhatTheirUserHadOpenedWhateverTheNameLeadsToLater) {
  const fs::path base = folder_.path();
  fs::create_directories(base / "theirs");
  fs::create_directories(base / "private/inner");
  std::ofstream(base / "theirs/file") << "theirs\n";
  fs::permissions(base / "private", fs::perms(0700));
  fs::create_directory_symlink(base / "theirs", base / "link");
  // Podman itself swaps the link before it begins, which is as late as can be.
  auto settings = options();
  settings.podman.program = podman_;
  ASSERT_EQ(settings.podman.program[3], "-c");
  settings.podman.program[4] = fmt::format("ln -sfn {0}/private/inner {0}/link; {1}", base.string(),
                                           settings.podman.program[4]);
  settings.podman.run_options = {"--network", "none",
                                 "--ulimit",  limit("nofile", RLIMIT_NOFILE),
                                 "--ulimit",  limit("nproc", RLIMIT_NPROC)};
  runtime_ = *MachineRuntime::create(settings, clock_);
  MemberStart member = contained(1, "cat /d/file");
  member.container->mounts = {{(base / "link").string(), "/d", false}};
  const model::MemberEnd end = run(member);
  EXPECT_EQ(end.exit_code, 0) << end.reason << output(key(1));
  EXPECT_EQ(output(key(1)), "theirs\n");
  EXPECT_EQ(fs::read_symlink(base / "link"), base / "private/inner");
}

TEST_F(ContainerMembers, HaveNoUlimitAboveTheDaemons) {
  rlimit own{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &own), 0);
  if (own.rlim_max == RLIM_INFINITY) GTEST_SKIP() << "there is nothing above it";
  MemberStart member = contained(1, "true");
  member.limits.ulimits = {{"nofile", {own.rlim_max + 1, own.rlim_max + 1}}};
  const model::MemberEnd end = run(member);
  EXPECT_EQ(end.exit_code, 126);
  EXPECT_NE(end.reason.find("the daemon's own"), std::string::npos) << end.reason;
}

TEST_F(ContainerMembers, LeaveNoMountBehind) {
  const auto mounted = [this] {
    std::ifstream table("/proc/self/mountinfo");
    const std::string text((std::istreambuf_iterator<char>(table)), {});
    return text.find(folder_.path().string() + "/members") != std::string::npos;
  };
  fs::create_directories(folder_.path() / "data");
  std::ofstream(folder_.path() / "data/file") << "kept\n";
  MemberStart member = contained(1, "echo ready; exec sleep 1000");
  member.container->mounts = {{(folder_.path() / "data").string(), "/d", false},
                              {(folder_.path() / "data/file").string(), "/f", true}};
  start(member);
  await_line(key(1), "ready");
  EXPECT_FALSE(mounted()) << "others see it";
  EXPECT_TRUE(runtime_->stop(key(1), seconds(0)));
  (void)await_end(key(1));
  EXPECT_TRUE(runtime_->forget(key(1)));
  EXPECT_FALSE(mounted());
  EXPECT_TRUE(fs::exists(folder_.path() / "data/file")) << "it went with the member's folder";
}

TEST_F(ContainerMembers, OfAnImageThatIsNotThereSayWhatPodmanSays) {
  MemberStart member = contained(1, "true");
  member.container->image = "localhost/none:1";
  const model::MemberEnd end = run(member);
  EXPECT_EQ(end.exit_code, 125);
  EXPECT_NE(output(key(1)).find("localhost/none:1"), std::string::npos) << output(key(1));
}

}  // namespace
}  // namespace divvy::run
