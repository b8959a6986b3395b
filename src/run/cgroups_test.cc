#include "run/cgroups.h"

#include <fmt/ranges.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>

#include "run/child.h"
#include "run/testing.h"

namespace divvy::run {
namespace {

namespace fs = std::filesystem;

constexpr const char* kHybrid =
    "25 20 0:22 / /sys/fs/cgroup rw,nosuid - tmpfs tmpfs rw,mode=755\n"
    "26 25 0:23 / /sys/fs/cgroup/unified rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n"
    "27 25 0:24 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n"
    "28 25 0:25 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n"
    "29 25 0:26 / /sys/fs/cgroup/my\\040pids rw - cgroup cgroup rw,pids\n"
    "30 25 0:27 / /sys/fs/cgroup/systemd rw - cgroup cgroup rw,name=systemd\n";

TEST(CgroupTree, FindsTheTreesOfVersionOneBesideAnEmptyVersionTwo) {
  const sys::CgroupTree tree = sys::parse_cgroup_tree(
      kHybrid, "4:memory:/user/a\n3:pids:/\n2:cpu,cpuacct:/b\n0::/init.scope\n");
  EXPECT_FALSE(tree.unified);
  ASSERT_EQ(tree.legacy.size(), 3U);
  EXPECT_EQ(tree.legacy.at("cpu"), "/sys/fs/cgroup/cpu,cpuacct");
  EXPECT_EQ(tree.legacy.at("pids"), "/sys/fs/cgroup/my pids");
  EXPECT_EQ(tree.own.at("memory"), "user/a");
  EXPECT_EQ(tree.own.at("cpu"), "b");
  EXPECT_EQ(tree.own.at("pids"), "");
}

TEST(CgroupTree, FindsVersionTwo) {
  const sys::CgroupTree tree = sys::parse_cgroup_tree(
      "26 25 0:23 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n",
      "0::/system.slice/divvyd.service\n");
  EXPECT_EQ(tree.unified, "/sys/fs/cgroup");
  EXPECT_EQ(tree.own.at(""), "system.slice/divvyd.service");
  const auto parents = sys::group_parents(*tree.unified, tree.own.at(""));
  ASSERT_EQ(parents.size(), 2U);
  EXPECT_EQ(parents[0], "/sys/fs/cgroup/system.slice/divvyd.service/divvy");
  EXPECT_EQ(parents[1], "/sys/fs/cgroup/divvy");
}

TEST(CgroupTree, OfAContainerBeginsWhereItsMountDoes) {
  const sys::CgroupTree tree = sys::parse_cgroup_tree(
      "26 25 0:23 /docker/x /sys/fs/cgroup ro - cgroup2 cgroup2 rw\n", "0::/docker/x/inner\n");
  EXPECT_EQ(tree.own.at(""), "inner");
}

TEST(CgroupTree, OfNonsenseIsEmpty) {
  for (const char* text : {"", "\n\n", "a b c", "1 2 3 4 5 6 - cgroup2", " - - - - - - - - - -"}) {
    EXPECT_TRUE(sys::parse_cgroup_tree(text, text).empty()) << text;
  }
  std::string without;
  const CgroupPlan plan = plan_cgroup({}, "x");
  EXPECT_FALSE(Cgroup::make(plan, {}, without).exists());
  EXPECT_EQ(without, "");
  model::MemberLimits limits;
  limits.ram = mib(1);
  limits.pids = 3;
  (void)Cgroup::make(plan, limits, without);
  EXPECT_EQ(without.substr(0, 69),
            "no limit on memory, processes: this machine mounts no control groups;");
}

// A folder that looks like version 2: the files are there, and nothing happens when they are
// written.
class FakeUnified : public ::testing::Test {
 protected:
  void SetUp() override {
    tree_.unified = folder_.path();
    tree_.own[""] = "";
    group_ = folder_.path() / "divvy/name";
    fs::create_directories(group_);
    for (const fs::path& folder : {folder_.path(), folder_.path() / "divvy"}) {
      write(folder / "cgroup.controllers", "cpuset cpu memory pids\n");
      write(folder / "cgroup.subtree_control", "memory pids\n");
    }
    for (const char* name :
         {"cgroup.procs", "cgroup.kill", "cgroup.freeze", "cpu.max", "memory.max",
          "memory.swap.max", "memory.oom.group", "memory.events", "pids.max"}) {
      write(group_ / name, "");
    }
  }
  static void write(const fs::path& path, const std::string& text) { std::ofstream(path) << text; }
  static std::string read(const fs::path& path) {
    std::ifstream file(path);
    return {std::istreambuf_iterator<char>(file), {}};
  }

  MembersFolder folder_;
  sys::CgroupTree tree_;
  fs::path group_;
};

TEST_F(FakeUnified, HoldsTheLimitsInTheFilesOfVersionTwo) {
  model::MemberLimits limits;
  limits.cpu_milli = 1'500;
  limits.ram = gib(1);
  limits.pids = 64;
  const CgroupPlan plan = plan_cgroup(tree_, "name");
  EXPECT_TRUE(plan.unified);
  EXPECT_TRUE(plan.without.empty());
  std::string without;
  const Cgroup group = Cgroup::make(plan, limits, without);
  EXPECT_EQ(without, "");
  EXPECT_EQ(read(folder_.path() / "cgroup.subtree_control"), "+cpu") << "the one that was missing";
  EXPECT_EQ(read(group_ / "cpu.max"), "150000 100000");
  EXPECT_EQ(read(group_ / "memory.max"), "1073741824");
  EXPECT_EQ(read(group_ / "memory.swap.max"), "0");
  EXPECT_EQ(read(group_ / "memory.oom.group"), "1");
  EXPECT_EQ(read(group_ / "pids.max"), "64");
  EXPECT_EQ(group.procs_files(), std::vector<std::string>{(group_ / "cgroup.procs").string()});
}

TEST_F(FakeUnified, FreezesKillsAndCountsWhoRanOutOfMemory) {
  std::string without;
  const Cgroup group = Cgroup::make(plan_cgroup(tree_, "name"), {}, without);
  ASSERT_TRUE(group.freeze(true));
  EXPECT_EQ(read(group_ / "cgroup.freeze"), "1");
  EXPECT_FALSE(group.kill()) << "nobody is in it";
  write(group_ / "cgroup.procs", "2000000001\n0\n");
  EXPECT_TRUE(group.kill());
  EXPECT_EQ(read(group_ / "cgroup.kill"), "1");
  EXPECT_EQ(group.out_of_memory(), 0U);
  write(group_ / "memory.events", "low 0\noom 3\noom_kill 2\noom_group_kill 1\n");
  EXPECT_EQ(group.out_of_memory(), 2U);
}

TEST_F(FakeUnified, TellsWhatWasUsedInIt) {
  std::string without;
  const Cgroup group = Cgroup::make(plan_cgroup(tree_, "name"), {}, without);
  EXPECT_EQ(group.use(), model::MemberUse()) << "the kernel does not say";
  write(group_ / "cpu.stat", "usage_usec 1500000\nuser_usec 1000000\nsystem_usec 500000\n");
  write(group_ / "memory.peak", "67108864\n");
  EXPECT_EQ(group.use(), (model::MemberUse{std::chrono::milliseconds(1'500), mib(64), {}}));
}

TEST(Cgroup, OfVersionOneTellsWhatWasUsedInIt) {
  const MembersFolder folder;
  fs::create_directories(folder.path() / "cpu");
  fs::create_directories(folder.path() / "memory");
  std::ofstream(folder.path() / "cpu/cpu.stat") << "nr_periods 0\nnr_throttled 0\n";
  std::ofstream(folder.path() / "cpu/cpuacct.usage") << "1500000000\n";
  std::ofstream(folder.path() / "memory/memory.max_usage_in_bytes") << "67108864\n";
  const Cgroup group = Cgroup::adopt({folder.path() / "cpu", folder.path() / "memory"});
  EXPECT_EQ(group.use(), (model::MemberUse{std::chrono::milliseconds(1'500), mib(64), {}}));
}

TEST_F(FakeUnified, IsMadeAlsoWhenTheLastOfBeforeHasJustRemovedWhatItStandsIn) {
  CgroupPlan plan = plan_cgroup(tree_, "name");
  plan.folders = {folder_.path() / "gone" / "name"};
  std::string without;
  const Cgroup group = Cgroup::make(plan, {}, without);
  EXPECT_TRUE(group.exists());
  EXPECT_TRUE(group.remove());
  EXPECT_FALSE(fs::exists(folder_.path() / "gone")) << "nobody else is in it";
}

TEST_F(FakeUnified, SaysWhichControllerIsMissing) {
  write(folder_.path() / "cgroup.controllers", "memory\n");
  write(folder_.path() / "cgroup.subtree_control", "memory\n");
  fs::remove(group_ / "pids.max");
  model::MemberLimits limits;
  limits.pids = 1;
  std::string without;
  (void)Cgroup::make(plan_cgroup(tree_, "name"), limits, without);
  EXPECT_NE(without.find("no limit on processes: "), std::string::npos) << without;
  EXPECT_NE(without.find("pids is not among the controllers of"), std::string::npos) << without;
}

// --- The kernel's own, of version 2, with whatever controllers it has ---

sys::CgroupTree real_unified() {
  std::ifstream mounts("/proc/self/mountinfo");
  std::ifstream groups("/proc/self/cgroup");
  const std::string cgroup{std::istreambuf_iterator<char>(groups), {}};
  for (std::string line; std::getline(mounts, line);) {
    if (line.find(" - cgroup2 ") != std::string::npos) return sys::parse_cgroup_tree(line, cgroup);
  }
  return {};
}

TEST(Cgroup, OfVersionTwoHoldsProcessesTogetherAndKillsThem) {
  const sys::CgroupTree tree = real_unified();
  const CgroupPlan plan = plan_cgroup(tree, fmt::format("divvy-test-{}", ::getpid()));
  std::string without;
  const Cgroup group = Cgroup::make(plan, {}, without);
  if (!group.exists()) GTEST_SKIP() << fmt::format("{}", fmt::join(plan.without, "; "));

  ChildPlan sleeper;
  sleeper.words = {"/bin/sh", "-c", "setsid sleep 1000 & exec sleep 1000"};
  sleeper.environment = {{"PATH", "/usr/bin:/bin"}};
  sleeper.uid = ::geteuid();
  sleeper.gid = ::getegid();
  sleeper.cgroup_procs = group.procs_files();
  const auto child = start_child(sleeper);
  ASSERT_TRUE(child) << child.error().message;
  const auto inside = group.processes();
  EXPECT_NE(std::ranges::find(inside, *child), inside.end());
  EXPECT_FALSE(group.remove()) << "somebody is in it";
  EXPECT_TRUE(group.freeze(true));
  // Who stands still dies all the same.
  EXPECT_TRUE(group.kill());
  int status = 0;
  ASSERT_EQ(::waitpid(*child, &status, 0), *child);
  EXPECT_EQ(WTERMSIG(status), SIGKILL);
  const auto until = std::chrono::steady_clock::now() + kTestPatience;
  while (group.kill() && std::chrono::steady_clock::now() < until) ::usleep(1'000);
  while (!group.remove() && std::chrono::steady_clock::now() < until) ::usleep(1'000);
  EXPECT_FALSE(fs::exists(plan.folders.front()));
}

TEST(Cgroup, ThatIsGoneDoesNotMatter) {
  const Cgroup group = Cgroup::adopt({"/no/such/folder"});
  EXPECT_FALSE(group.exists());
  EXPECT_FALSE(group.kill());
  EXPECT_TRUE(group.remove());
  EXPECT_TRUE(group.processes().empty());
}

}  // namespace
}  // namespace divvy::run
