// What the real daemon removes of jobs that have ended, and what it says about them then.
#include <signal.h>

#include "job_machine.h"

namespace divvy::testing {
namespace {

namespace json = boost::json;

class RetentionSystem : public JobMachine {
 protected:
  void SetUp() override {
    JobMachine::SetUp();
    start_daemon();
  }
  // Everything stays again, so that what the test leaves is found at its end.
  void TearDown() override {
    restart({});
    JobMachine::TearDown();
  }
  void restart(const std::vector<std::string>& options) {
    stop_daemon(SIGTERM);
    start_daemon(options);
  }
  std::uint64_t ended(const std::string& name) {
    const auto id = submit({{"name", name}, {"gpu", 0.1}, {"command", {"echo", name}}});
    EXPECT_TRUE(becomes(id, "succeeded"));
    return id;
  }
};

TEST_F(RetentionSystem, RemovesAllButTheLastJobsAndSaysSo) {
  const auto first = ended("first");
  const auto second = ended("second");
  restart({"--set", "queue.keep_finished_jobs=1", "--set", "queue.keep_finished=30d"});
  const std::string path = "/v1/jobs/" + std::to_string(first);
  ASSERT_TRUE(eventually([&] { return ask("GET", path).status == 404; }));
  const Outcome gone = divvy({"get", std::to_string(first)});
  EXPECT_EQ(gone.status, 3);
  EXPECT_TRUE(has(gone.err, "was removed after its end: jobs that have ended are kept for 30d"))
      << gone.err;
  EXPECT_FALSE(has(divvy({"get", "4711"}).err, "removed")) << "there never was one";
  EXPECT_EQ(divvy({"logs", std::to_string(second)}).out, "second\n");
  const std::string members = divvy({"usage", "--by", "job"}).out;
  EXPECT_TRUE(has(members, std::to_string(first))) << "what it used is still in the books";
}

TEST_F(RetentionSystem, KeepsAJobThatAnotherOneWaitsFor) {
  const auto victim = ended("victim");
  const auto needed = ended("needed");
  const auto last = ended("last");
  const auto full = submit(gated("full", 2));
  ASSERT_TRUE(becomes(full, "running"));
  const auto waits = submit(
      {{"gpu", 1}, {"command", {"true"}}, {"after", json::array{json::object{{"job", needed}}}}});
  restart({"--set", "queue.keep_finished_jobs=1"});
  ASSERT_TRUE(
      eventually([&] { return ask("GET", "/v1/jobs/" + std::to_string(victim)).status == 404; }));
  EXPECT_EQ(state(needed), "succeeded") << "it is as old as the other, and needed";
  EXPECT_EQ(state(last), "succeeded");
  open_gate("full");
  EXPECT_TRUE(becomes(waits, "succeeded"));
}

}  // namespace
}  // namespace divvy::testing
