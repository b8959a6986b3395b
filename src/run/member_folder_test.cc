#include "run/member_folder.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>

#include <atomic>
#include <fstream>
#include <thread>

#include "run/testing.h"

namespace divvy::run {
namespace {

namespace fs = std::filesystem;

const MemberKey kKey{model::JobId(7), 2, 3};

Orders full_orders() {
  Orders orders;
  MemberStart& member = orders.member;
  member.key = kKey;
  member.command = {"train", "--lr", "0.1", "\"quoted\" \xff\n"};
  member.environment = {{"A", "b=c"}, {"EMPTY", ""}};
  member.working_directory = "/home/alice";
  member.uid = 1000;
  member.gid = 1001;
  member.groups = {4, 44};
  member.limits.cpu_milli = 1500;
  member.limits.ram = gib(3);
  member.limits.pids = 100;
  member.limits.shm = mib(64);
  member.limits.ulimits = {{"nofile", {1, ~0ULL}}};
  model::ContainerSpec container;
  container.image = "localhost/x:1";
  container.mounts = {{"/data", "/d", true}};
  container.ports = {{8080, 80}};
  container.entry_point = std::vector<std::string>{"/init"};
  member.container = container;
  member.cdi_devices = {"divvy.dev/slice=job-7.2.3"};
  member.grace = std::chrono::seconds(12);
  member.keep_input = true;
  member.log_part = mib(1);
  member.log_parts = 9;
  orders.podman = {{"podman", "--root", "/x"}, {"--network", "none"}, true, "/run/u", "/srv/i"};
  orders.control_groups = false;
  return orders;
}

TEST(MemberKey, IsItsNameAndNothingElseIs) {
  EXPECT_EQ(to_string(kKey), "job-7.2.3");
  EXPECT_EQ(*parse_member_key("job-7.2.3"), kKey);
  for (const char* text :
       {"", "job-", "job-7", "job-7.2", "job-7.2.3.4", "job-07.2.3", "job-7.2.-3", "job-7.2.3 ",
        "jub-7.2.3", "job-7.2.4294967296", "job-+7.2.3"}) {
    EXPECT_FALSE(parse_member_key(text)) << text;
  }
}

class FolderTest : public ::testing::Test {
 protected:
  MemberFolder make() { return *MemberFolder::create(folder_.path(), kKey); }
  void spoil(const char* name, const std::string& bytes) {
    std::ofstream(folder_.path() / "job-7.2.3" / name, std::ios::binary) << bytes;
  }
  MembersFolder folder_;
};

TEST_F(FolderTest, StoresOrdersWatchAndExitStatus) {
  const MemberFolder folder = make();
  ASSERT_TRUE(folder.write(full_orders()));
  EXPECT_EQ(*folder.orders(), full_orders());
  const Watch watch{{12, 345, "boot"}, 13, {"/sys/fs/cgroup/x"}, "no limit"};
  ASSERT_TRUE(folder.write(watch));
  EXPECT_EQ(*folder.watch(), watch);
  EXPECT_EQ(folder.ending().error().code, ErrorCode::kNotFound);
  Ending ending;
  ending.end = {WallTime(Duration(1'234'567'890'123'456'789)),
                3,
                9,
                "out of memory",
                {std::chrono::milliseconds(1'500), mib(64), {}}};
  ASSERT_TRUE(folder.reserve_ending());
  EXPECT_EQ(folder.ending().error().code, ErrorCode::kNotFound);
  ASSERT_TRUE(folder.write(ending));
  EXPECT_EQ(*folder.ending(), ending);
}

TEST_F(FolderTest, IsMadeOnce) {
  make();
  EXPECT_EQ(MemberFolder::create(folder_.path(), kKey).error().code, ErrorCode::kAlreadyExists);
  EXPECT_EQ(MemberFolder::open(folder_.path(), {}).error().code, ErrorCode::kNotFound);
}

TEST_F(FolderTest, OnlyTheSocketIsAccessibleToOthers) {
  const MemberFolder folder = make();
  ASSERT_TRUE(folder.write(full_orders()));
  struct stat info{};
  ASSERT_EQ(::stat(folder.path().c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777U, 0711U);
  ASSERT_EQ(::stat((folder.path() / "orders").c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777U, 0600U);
}

TEST_F(FolderTest, HasOneLock) {
  const MemberFolder folder = make();
  auto held = folder.try_lock();
  ASSERT_TRUE(held);
  EXPECT_EQ(folder.try_lock().error().code, ErrorCode::kUnavailable);
  held->reset();
  EXPECT_TRUE(folder.try_lock());
}

TEST_F(FolderTest, WhatIsRemovedIsGoneForWhoeverHasItOpen) {
  const MemberFolder folder = make();
  // A shepherd that was late, and the thread that ends what was lost.
  const MemberFolder late = MemberFolder::open(folder_.path(), kKey).value();
  EXPECT_FALSE(late.is_gone());
  ASSERT_TRUE(folder.remove().has_value());
  EXPECT_TRUE(late.is_gone());
  EXPECT_FALSE(late.lock().has_value());
  EXPECT_FALSE(late.try_lock().has_value());
  // Also when the next start has made one of that name.
  const MemberFolder next = make();
  EXPECT_TRUE(late.is_gone());
  EXPECT_TRUE(late.remove().has_value()) << "there is nothing left to remove";
  EXPECT_FALSE(next.is_gone());
  EXPECT_TRUE(next.lock().has_value());
}

// A shepherd that comes late makes its socket before it takes the lock.
TEST_F(FolderTest, IsRemovedWhateverIsPutIntoItMeanwhile) {
  for (int round = 0; round < 50; ++round) {
    const MemberFolder folder = make();
    const MemberFolder late = MemberFolder::open(folder_.path(), kKey).value();
    std::atomic<bool> removed{false};
    std::thread shepherd([&] {
      for (int i = 0; !removed; ++i) {
        const UniqueFd file(::openat(late.fd(), fmt::format("file-{}", i % 100).c_str(),
                                     O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
      }
    });
    EXPECT_TRUE(folder.remove().has_value());
    EXPECT_FALSE(late.lock().has_value()) << "it would start the member";
    removed = true;
    shepherd.join();
    EXPECT_FALSE(fs::exists(folder.path()));
  }
}

TEST_F(FolderTest, WhatAnInterruptedRemovalLeftIsNoMemberAndIsRemoved) {
  const MemberFolder folder = make();
  const auto left = folder_.path() / (".removed-" + to_string(kKey) + "-7");
  fs::rename(folder.path(), left);
  EXPECT_TRUE(list_members(folder_.path()).value().empty());
  remove_leftovers(folder_.path());
  EXPECT_FALSE(fs::exists(left));
}

TEST_F(FolderTest, AnswersForDamagedFiles) {
  const MemberFolder folder = make();
  for (const std::string& bytes :
       {std::string(), std::string("{"), std::string("[]"), std::string(100'000, '7'),
        std::string("{\"member\":{\"key\":\"job-7.2.3\"}}"), std::string("\0\0", 2),
        std::string("{\"shepherd\":3}"), std::string("{\"exitCode\":\"0\",\"atNs\":1}")}) {
    for (const char* name : {"orders", "watch", "exit"}) spoil(name, bytes);
    EXPECT_FALSE(folder.orders()) << bytes.substr(0, 40);
    EXPECT_EQ(folder.ending().error().code, ErrorCode::kDataLoss) << bytes.substr(0, 40);
    (void)folder.watch();
  }
  // The orders of somebody else are not this member's.
  Orders orders = full_orders();
  orders.member.key.rank = 4;
  ASSERT_TRUE(folder.write(orders));
  EXPECT_EQ(folder.orders().error().code, ErrorCode::kDataLoss);
}

TEST_F(FolderTest, ListsMembersAndLeavesOthersAlone) {
  make();
  (void)MemberFolder::create(folder_.path(), {model::JobId(10), 1, 0});
  (void)MemberFolder::create(folder_.path(), {model::JobId(9), 1, 0});
  fs::create_directories(folder_.path() / "lost+found");
  const auto keys = list_members(folder_.path());
  ASSERT_TRUE(keys);
  ASSERT_EQ(keys->size(), 3U);
  EXPECT_EQ(to_string((*keys)[1]), "job-9.1.0");
  EXPECT_FALSE(list_members(folder_.path() / "none"));
}

// --- What a daemon makes of folders that it finds ---

class Found : public RuntimeTest {
 protected:
  MemberReport settle() {
    const auto found = runtime_->find(key(1));
    return found.value_or(MemberReport{.key = {}, .end = {}, .without = {}});
  }
  MemberFolder make() { return *MemberFolder::create(options().members, key(1)); }
};

TEST_F(Found, AFolderWithNothingInItIsAMemberThatNeverStarted) {
  fs::create_directories(options().members / "job-1.1.0");
  const MemberReport report = settle();
  EXPECT_EQ(report.phase, MemberPhase::kLost);
  EXPECT_EQ(report.end->reason, "it was never started");
  // And never will.
  EXPECT_EQ(runtime_->start(plain(1, {"true"})).error().code, ErrorCode::kAlreadyExists);
  EXPECT_EQ(settle().end, report.end);
}

TEST_F(Found, AMemberFromBeforeTheLastBootIsLost) {
  const MemberFolder folder = make();
  ASSERT_TRUE(folder.write(Orders{plain(1, {"true"}), {}, true}));
  // The number is that of a process that runs now, and is not this one.
  ASSERT_TRUE(folder.write(Watch{{::getpid(), 1, "another boot"}, ::getpid(), {}, ""}));
  EXPECT_EQ(settle().end->reason, "the machine was restarted");
}

TEST_F(Found, AnUnreadableExitFileIsAFailure) {
  make();
  std::ofstream(options().members / "job-1.1.0/exit") << "{\"exitCode\":";
  const MemberReport report = settle();
  EXPECT_EQ(report.phase, MemberPhase::kLost);
  EXPECT_FALSE(report.end->succeeded());
  EXPECT_NE(report.end->reason.find("cannot be read"), std::string::npos) << report.end->reason;
}

TEST_F(Found, AMemberWithALivingShepherdIsAlive) {
  const MemberFolder folder = make();
  const auto held = folder.lock();
  EXPECT_EQ(settle().phase, MemberPhase::kLiving);
  Ending ending;
  ending.end.exit_code = 3;
  ASSERT_TRUE(folder.write(ending));
  EXPECT_EQ(settle().phase, MemberPhase::kEnded) << "the last word is said, whoever holds the lock";
}

}  // namespace
}  // namespace divvy::run
