// `divvy submit` that stays with its job.
#include <gtest/gtest.h>

#include "cli/exit_codes.h"
#include "cli/fake_daemon.h"

namespace divvy::cli {
namespace {

class SubmitFollow : public testing::Test {
 protected:
  CliOutcome divvy(const std::vector<std::string>& arguments) {
    return run_divvy(arguments, daemon_.socket());
  }
  FakeDaemon daemon_;
};

TEST_F(SubmitFollow, StopsShowingTheOutputWhenTheTimeIsOver) {
  bool began = false;
  daemon_.on("GET /v1/node", "{}");
  daemon_.on("POST /v1/jobs", R"({"items":[{"id":17,"name":"train","state":"queued"}]})", 201);
  daemon_.on("GET /v1/jobs/17/logs", [&](const net::HttpRequest&) {
    // Whoever comes again for more has waited for too long.
    if (began) daemon_.on("GET /v1/jobs/17", R"({"id":17,"state":"succeeded"})");
    began = true;
    return net::HttpResponse{.body = "2026-11-15T12:00:00.000000001Z hello\n"};
  });
  const std::string log = (daemon_.folder() / "log").string();
  for (const std::vector<std::string>& how :
       {std::vector<std::string>{"--follow"}, {"--wait", "--follow"}, {"--log", log}}) {
    began = false;
    daemon_.on("GET /v1/jobs/17", R"({"id":17,"state":"running"})");
    std::vector<std::string> words{"submit", "--timeout", "0s"};
    words.insert(words.end(), how.begin(), how.end());
    words.insert(words.end(), {"--", "a"});
    const CliOutcome outcome = divvy(words);
    EXPECT_EQ(outcome.status, kExitWaitedTooLong) << outcome.err;
    EXPECT_EQ(outcome.err, "divvy: job 17 is still running\n");
  }
}

}  // namespace
}  // namespace divvy::cli
