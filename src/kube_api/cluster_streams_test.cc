// Output of pods, and what happens, while it is sent.
#include <utility>

#include "kube_api/cluster_api_fixture.h"

namespace divvy::kube_api {
namespace {

using ::testing::AllOf;
using testing::ClusterApiTest;
using ::testing::HasSubstr;
using testing::Taker;
namespace json = boost::json;

std::string log_of(const std::string& pod) {
  return "/api/v1/namespaces/team-a/pods/" + pod + "/log";
}

TEST_F(ClusterApiTest, OutputOfAnEndedPodIsItsLogWithoutTimes) {
  put_pod("train", "Failed", 3);
  api_.put_text(log_of("train"), "2026-01-01T00:00:06.000000001Z hello\n");
  api_.put_text(log_of("train"), "2026-01-01T00:00:07.000000001Z no line end");
  const std::string job = "/v1/jobs/" + id("train");
  EXPECT_EQ(ask("GET", job + "/logs").body, "hello\nno line end\n");
  EXPECT_EQ(ask("GET", job + "/logs?timestamps=true&tail=1").body,
            "2026-01-01T00:00:06.000000001Z hello\n2026-01-01T00:00:07.000000001Z no line end\n");
  EXPECT_THAT(api_.requests().back(), HasSubstr("tailLines=1"));
  const json::object ended = get(job);
  EXPECT_EQ(ended.at("state"), "failed");
  EXPECT_EQ(ended.at("running").at(0).at("end").at("exitCode"), 3);
}

TEST_F(ClusterApiTest, FollowedOutputComesAsItIsWrittenAndEndsWithTheJob) {
  put_pod("train", "Running");
  api_.put_text(log_of("train"), "2026-01-01T00:00:06Z one\n");
  const auto response = ask("GET", "/v1/jobs/" + id("train") + "/logs?follow=true");
  ASSERT_TRUE(response.stream) << response.body;
  Taker taker(caller_, [this, said = false](const std::string& text) mutable {
    // What is written while somebody looks, and then the end.
    if (!said && text.find("one\n") != std::string::npos) {
      said = true;
      api_.put_text(log_of("train"), "2026-01-01T00:00:07Z two\n");
      api_.end_text(log_of("train"));
      tell("train", "Succeeded");
    }
    return false;
  });
  response.stream(taker);
  EXPECT_EQ(taker.text, "one\ntwo\n");
}

TEST_F(ClusterApiTest, FollowedOutputGoesOnBehindAConnectionThatEnded) {
  put_pod("train", "Running");
  api_.put_text(log_of("train"), "2026-01-01T00:00:06Z one\n2026-01-01T00:00:06Z same time\n");
  const auto response = ask("GET", "/v1/jobs/" + id("train") + "/logs?follow=true&tail=5");
  ASSERT_TRUE(response.stream) << response.body;
  Taker taker(caller_, [this, cuts = 0](const std::string& text) mutable {
    if (cuts == 0 && text.ends_with("same time\n")) {
      // As a proxy does that has seen nothing for long.
      cuts = 1;
      api_.end_watches();
      api_.put_text(log_of("train"), "2026-01-01T00:00:06Z also\n2026-01-01T00:00:07Z two\n");
    } else if (cuts == 1 && text.ends_with("two\n")) {
      // As an API server that is restarted: neither pods nor output can be had for a moment.
      cuts = 2;
      api_.set_fault([left = 5](const std::string&, const std::string&) mutable {
        return --left < 0 ? std::nullopt
                          : std::optional(Error{ErrorCode::kUnavailable, "connection refused"});
      });
      api_.end_watches();
      api_.put_text(log_of("train"), "2026-01-01T00:00:08Z three\n");
      api_.end_text(log_of("train"));
      tell("train", "Succeeded");
    }
    return false;
  });
  response.stream(taker);
  EXPECT_EQ(taker.text, "one\nsame time\nalso\ntwo\nthree\n");
  const auto requests = api_.requests();
  EXPECT_THAT(requests, ::testing::Contains(HasSubstr("sinceTime=2026-01-01T00%3A00%3A07Z")));
}

TEST_F(ClusterApiTest, FollowedOutputEndsWithTheJobAlsoWhereAPodWentWithoutAWord) {
  for (const char* name : {"rank-0", "rank-1"}) {
    cluster_.create_pod(
        {.name = name, .gpu = "0.2", .gang = kube::PodGang{.name = "team", .size = 2}});
  }
  settle();
  tell("rank-0", "Running");
  tell("rank-1", "Running");
  api_.put_text(log_of("rank-0"), "2026-01-01T00:00:06Z zero\n");
  api_.put_text(log_of("rank-1"), "2026-01-01T00:00:06Z one\n");
  const auto response = ask("GET", "/v1/jobs/" + id("team") + "/logs?follow=true");
  ASSERT_TRUE(response.stream) << response.body;
  int looks = 0;  // for pods, after the end
  Taker taker(caller_, [this, &looks, gone = false](const std::string& text) mutable {
    const bool both =
        text.find("zero\n") != std::string::npos && text.find("one\n") != std::string::npos;
    if (both && !std::exchange(gone, true)) {
      // Evicted, say: between one look and the next it has ended and is not there any more.
      EXPECT_TRUE(
          api_.remove("/api/v1/namespaces/team-a/pods/rank-0", {{"gracePeriodSeconds", 0}}));
      api_.put_text(log_of("rank-0"), "2026-01-01T00:00:07Z last words\n");
      api_.end_text(log_of("rank-0"));
      api_.end_text(log_of("rank-1"));
      tell("rank-1", "Succeeded");
      // Whoever would wait for ever may not see it any more.
      api_.set_fault([&looks](const std::string&, const std::string& path) {
        const bool forever = path.find("/log?") == std::string::npos && ++looks > 5000;
        return forever ? std::optional(Error{ErrorCode::kPermissionDenied, "enough"})
                       : std::nullopt;
      });
    }
    return false;
  });
  response.stream(taker);
  EXPECT_LE(looks, 5000) << "it goes on although the job has ended";
  EXPECT_THAT(taker.text, AllOf(HasSubstr("zero\n"), HasSubstr("last words\n")));
}

TEST_F(ClusterApiTest, PodsAreNotListedForEachLineOfTheirOutput) {
  ClusterApi patient(api_, cluster_.clock(),
                     {.space = "team-a", .version = "1", .look_again = std::chrono::hours(1)});
  put_pod("train", "Running");
  api_.put_text(log_of("train"), "2026-01-01T00:00:06Z line\n");
  const auto response = patient.handle({.method = "GET",
                                        .path = "/v1/jobs/" + id("train") + "/logs",
                                        .query = "follow=true",
                                        .body = {}},
                                       caller_);
  ASSERT_TRUE(response.stream) << response.body;
  const std::size_t asked = api_.requests().size();
  Taker taker(caller_, [this, lines = 0](const std::string&) mutable {
    api_.put_text(log_of("train"), "2026-01-01T00:00:06Z line\n");
    return ++lines == 100;
  });
  response.stream(taker);
  EXPECT_LT(api_.requests().size() - asked, 10);
}

TEST_F(ClusterApiTest, OutputThatCannotBeReadIsGivenUpWhenTheJobHasEnded) {
  put_pod("train", "Succeeded");
  const auto response = ask("GET", "/v1/jobs/" + id("train") + "/logs?follow=true");
  ASSERT_TRUE(response.stream) << response.body;
  Taker taker(caller_, [](const std::string&) { return false; });
  response.stream(taker);
  EXPECT_THAT(taker.text, HasSubstr("divvy: its output cannot be read: "));
}

TEST_F(ClusterApiTest, WhoMayNotReadOutputIsTold) {
  put_pod("train", "Running");
  const std::string job = id("train");
  api_.set_fault([](const std::string&, const std::string& path) -> std::optional<Error> {
    if (path.find("/log?") == std::string::npos) return std::nullopt;
    return Error{ErrorCode::kPermissionDenied, "you may not get pods/log"};
  });
  EXPECT_EQ(ask("GET", "/v1/jobs/" + job + "/logs?follow=true").status, 403);
  EXPECT_EQ(ask("GET", "/v1/jobs/" + job + "/logs").status, 403);
}

TEST_F(ClusterApiTest, WatchTellsWhatBecomesOfJobs) {
  cluster_.create_pod({.name = "train", .gpu = "0.2"});
  show();
  const auto response = ask("GET", "/v1/watch");
  ASSERT_TRUE(response.stream) << response.body;
  Taker taker(caller_, [this, placed = false](const std::string& text) mutable {
    if (!placed && text.find(R"("state":"queued")") != std::string::npos) {
      placed = true;
      settle();
      tell("train", "Running");
    }
    return text.find(R"("state":"running")") != std::string::npos;
  });
  response.stream(taker);
  EXPECT_THAT(taker.text, AllOf(HasSubstr(R"("state":"queued")"), HasSubstr(R"("state":"running")"),
                                HasSubstr(R"("object":"train")")));
}

TEST_F(ClusterApiTest, WatchGoesOnWhenTheApiServerDidNotAnswerForAMoment) {
  cluster_.create_pod({.name = "train", .gpu = "0.2"});
  show();
  const auto response = ask("GET", "/v1/watch");
  ASSERT_TRUE(response.stream) << response.body;
  Taker taker(caller_, [this, placed = false](const std::string& text) mutable {
    if (!placed && text.find(R"("state":"queued")") != std::string::npos) {
      placed = true;
      api_.await_watches(2);
      api_.set_fault([left = 3](const std::string&, const std::string&) mutable {
        return --left < 0 ? std::nullopt
                          : std::optional(Error{ErrorCode::kUnavailable, "connection refused"});
      });
      api_.end_watches();
      settle();
      tell("train", "Running");
    }
    return text.find(R"("state":"running")") != std::string::npos;
  });
  response.stream(taker);
  EXPECT_THAT(taker.text, HasSubstr(R"("state":"running")"));
  // What is there already is not sent once more by each watch.
  EXPECT_THAT(api_.requests(), ::testing::Contains(AllOf(::testing::StartsWith("WATCH "),
                                                         HasSubstr("resourceVersion="))));
}

}  // namespace
}  // namespace divvy::kube_api
