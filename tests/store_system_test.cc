// Backup and restore of a daemon at work.
#include <signal.h>

#include "job_machine.h"

namespace divvy::testing {
namespace {

namespace json = boost::json;

class StoreSystem : public JobMachine {
 protected:
  void SetUp() override {
    Machine::SetUp();
    start_daemon();
  }
  [[nodiscard]] std::string backup_file() const { return (folder() / "backup.db").string(); }
  void back_up() {
    const Outcome made = divvy({"backup", backup_file()});
    ASSERT_EQ(made.status, 0) << made.err;
    EXPECT_TRUE(has(made.out, backup_file() + ": a backup, ")) << made.out;
  }
  void restore() {
    EXPECT_EQ(divvy({"restore", backup_file()}).status, 1) << "the daemon runs";
    stop_daemon(SIGTERM);
    const Outcome restored = divvy({"restore", backup_file()});
    ASSERT_EQ(restored.status, 0) << restored.err;
    start_daemon();
  }
};

TEST_F(StoreSystem, ABackupOfADaemonAtWorkIsRestoredAndRunningWorkRunsOn) {
  const auto done = submit({{"name", "done"}, {"command", {"true"}}});
  ASSERT_TRUE(becomes(done, "succeeded"));
  const auto running = submit(gated("running"));
  ASSERT_TRUE(becomes(running, "running"));
  ASSERT_EQ(divvy({"quota", "set", "ada", "--gpu", "1.5"}).status, 0);
  back_up();
  ASSERT_EQ(divvy({"quota", "reset", "ada"}).status, 0);
  restore();
  EXPECT_EQ(state(done), "succeeded");
  EXPECT_EQ(state(running), "running");
  EXPECT_TRUE(has(divvy({"quota", "list"}).out, "ada"));
  open_gate("running");
  EXPECT_TRUE(becomes(running, "succeeded"));
  EXPECT_EQ(starts("running"), 1);
}

TEST_F(StoreSystem, WhatCameAfterTheBackupIsEndedAndItsNumberIsFreeForAnother) {
  back_up();
  const auto later = submit(waiting("later"));
  ASSERT_TRUE(becomes(later, "running"));
  ASSERT_TRUE(eventually([&] { return starts("later") == 1; }));
  const auto ended = submit({{"name", "ended"}, {"command", {"echo", "old"}}});
  ASSERT_TRUE(becomes(ended, "succeeded"));
  restore();
  EXPECT_EQ(ask("GET", "/v1/jobs/" + std::to_string(later)).status, 404);
  EXPECT_TRUE(eventually([&] { return tenants() == 0; }));
  // The new jobs of the same numbers run, and their output is their own.
  const std::vector<std::string> words = {"submit", "--follow", "--gpu", "0.3",
                                          "--",     "echo",     "new"};
  for (const auto id : {later, ended}) {
    const Outcome ran = divvy(words);
    EXPECT_EQ(ran.status, 0) << ran.err;
    EXPECT_TRUE(has(ran.out, "job " + std::to_string(id))) << ran.out;
    EXPECT_TRUE(has(ran.out, "\nnew\n")) << ran.out;
    EXPECT_FALSE(has(ran.out, "old")) << ran.out;
  }
}

TEST_F(StoreSystem, WhatIsNoBackupIsRefusedAndNothingChanges) {
  const auto done = submit({{"name", "done"}, {"command", {"true"}}});
  ASSERT_TRUE(becomes(done, "succeeded"));
  const auto try_restore = [&](const std::string& file) {
    return start({DIVVYD_PROGRAM, "--restore", file}, "restore").finish();
  };
  back_up();
  EXPECT_EQ(try_restore(backup_file()).status, 3) << "the daemon runs";
  stop_daemon(SIGTERM);
  EXPECT_EQ(try_restore(DIVVYD_PROGRAM).status, 1);
  EXPECT_EQ(try_restore("/no/such/file").status, 1);
  start_daemon();
  EXPECT_EQ(state(done), "succeeded");
}

}  // namespace
}  // namespace divvy::testing
