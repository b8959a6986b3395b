// Jobs at times that come again, through the real daemon and its commands.
#include <fmt/format.h>
#include <signal.h>

#include "job_machine.h"

namespace divvy::testing {
namespace {

class SchedulesSystem : public JobMachine {
 protected:
  void SetUp() override {
    Machine::SetUp();
    start_daemon();
  }
};

TEST_F(SchedulesSystem, AreMadeListedSuspendedAndDeletedAndOutliveTheDaemon) {
  const Outcome made = divvy({"submit", "--every", "@yearly", "--name", "yearly", "--gpu", "0.3",
                              "--missed", "once", "--", "true"});
  ASSERT_EQ(made.status, 0) << made.err;
  EXPECT_TRUE(has(made.out, "schedule yearly runs in ")) << made.out;
  EXPECT_TRUE(has(divvy({"list", "--all"}).out, "there are no jobs")) << "nothing runs now";
  stop_daemon(SIGKILL);
  start_daemon();
  const Outcome listed = divvy({"schedule", "list", "-o", "wide"});
  EXPECT_TRUE(has(listed.out, "yearly") && has(listed.out, "@yearly") && has(listed.out, "once"))
      << listed.out;
  EXPECT_EQ(divvy({"schedule", "suspend", "yearly"}).out, "schedule yearly is suspended\n");
  EXPECT_TRUE(has(divvy({"schedule", "list"}).out, "suspended"));
  EXPECT_TRUE(has(divvy({"schedule", "resume", "yearly"}).out, "schedule yearly goes on in "));
  const Outcome twice = divvy({"submit", "--every", "@daily", "--name", "yearly", "--", "true"});
  EXPECT_EQ(twice.status, 1);
  EXPECT_TRUE(has(twice.err, "there is a schedule yearly already")) << twice.err;
  EXPECT_EQ(divvy({"schedule", "delete", "yearly"}).status, 0);
  EXPECT_EQ(divvy({"schedule", "delete", "yearly"}).status, 3);
  EXPECT_TRUE(has(divvy({"schedule", "list"}).out, "there are no schedules"));
}

TEST_F(SchedulesSystem, WrongOnesAreRefusedInASentence) {
  const Outcome wrong = divvy({"submit", "--every", "61 * * * *", "--name", "x", "--", "true"});
  EXPECT_EQ(wrong.status, 2) << wrong.err;
  EXPECT_TRUE(has(wrong.err, "every: the minute \"61\" is not")) << wrong.err;
  EXPECT_EQ(divvy({"submit", "--missed", "once", "--", "true"}).status, 2);
  EXPECT_EQ(divvy({"submit", "--every", "@daily", "--wait", "--name", "x", "--", "true"}).status,
            2);
  EXPECT_TRUE(has(divvy({"submit", "--every", "@daily", "--", "true"}).err, "needs a name"));
  const Outcome much =
      divvy({"submit", "--every", "@daily", "--name", "x", "--gpu", "5", "--", "true"});
  EXPECT_NE(much.status, 0) << "no machine here could ever run it";
}

}  // namespace
}  // namespace divvy::testing
