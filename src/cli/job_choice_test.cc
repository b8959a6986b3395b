// Which jobs commands mean: by name, by array and by label.
#include <gtest/gtest.h>

#include "cli/exit_codes.h"
#include "cli/fake_daemon.h"

namespace divvy::cli {
namespace {

bool contains(const std::string& text, std::string_view piece) {
  return text.find(piece) != std::string::npos;
}

class JobChoice : public testing::Test {
 protected:
  CliOutcome divvy(const std::vector<std::string>& arguments) {
    return run_divvy(arguments, daemon_.socket());
  }
  FakeDaemon daemon_;
};

TEST_F(JobChoice, ANameMeansOnesOwnJobWhereThereIsOne) {
  daemon_.on("GET /v1/whoami", R"({"name":"ada","role":"user"})");
  daemon_.on("GET /v1/jobs", [](const net::HttpRequest& request) {
    const bool own = request.query.find("owner=ada") != std::string::npos;
    const bool other = request.query.find("name=other") != std::string::npos;
    if (own && other) return net::HttpResponse{.body = R"({"items":[]})"};
    return net::HttpResponse{
        .body = own ? R"({"items":[{"id":17,"owner":"ada"}]})"
                    : R"({"items":[{"id":18,"owner":"bob"},{"id":17,"owner":"ada"}]})"};
  });
  daemon_.on("GET /v1/jobs/17", R"({"id":17})");
  daemon_.on("DELETE /v1/jobs/17", R"({"id":17,"state":"cancelled"})");
  EXPECT_EQ(divvy({"get", "train", "-o", "name"}).out, "17\n");
  EXPECT_EQ(divvy({"delete", "train"}).out, "job 17 is cancelled\n");
  const CliOutcome outcome = divvy({"delete", "other"});
  EXPECT_EQ(outcome.status, kExitUsage);
  EXPECT_TRUE(contains(outcome.err, "18, 17")) << outcome.err;
}

TEST_F(JobChoice, AnArrayIsDeletedHoweverManyTasksItHas) {
  daemon_.on("GET /v1/jobs/17", R"({"id":17,"array":17})");
  daemon_.on("GET /v1/jobs/18", R"({"id":18,"array":17})");
  daemon_.on("GET /v1/jobs/19", R"({"id":19,"array":null})");
  daemon_.on("GET /v1/jobs", [](const net::HttpRequest& request) {
    if (request.query.find("name=") != std::string::npos) {
      return net::HttpResponse{.body = R"({"items":[{"id":18,"array":17},{"id":17,"array":17}]})"};
    }
    EXPECT_NE(request.query.find("array=17&"), std::string::npos) << request.query;
    const bool first = request.query.find("after=") == std::string::npos;
    return net::HttpResponse{.body = first ? R"({"items":[{"id":18}],"next":18})"
                                           : R"({"items":[{"id":17}],"next":null})"};
  });
  daemon_.on("DELETE /v1/jobs/17", R"({"id":17,"state":"cancelled"})");
  daemon_.on("DELETE /v1/jobs/18", R"({"id":18,"state":"cancelled"})");
  // Any task of it stands for it, and so does their name.
  for (const char* named : {"17", "18", "train"}) {
    const CliOutcome outcome = divvy({"delete", named, "--array"});
    EXPECT_EQ(outcome.status, kExitOk) << outcome.err;
    EXPECT_EQ(outcome.out, "job 18 is cancelled\njob 17 is cancelled\n") << named;
  }
  const CliOutcome none = divvy({"delete", "19", "--array"});
  EXPECT_EQ(none.status, kExitUsage);
  EXPECT_EQ(none.out, "");
  EXPECT_TRUE(contains(none.err, "job 19 is no task of an array")) << none.err;
}

constexpr const char* kLabelled = R"({"items":[
    {"id":19,"name":"c","spec":{"labels":{"sweep":"7","stage":"test"}}},
    {"id":18,"name":"b","spec":{"labels":{"sweep":"8"}}},
    {"id":17,"name":"a","spec":{"labels":{"sweep":"7"}}},{"id":16,"name":"other"}]})";

TEST_F(JobChoice, ListChoosesByLabels) {
  daemon_.on("GET /v1/jobs", kLabelled);
  EXPECT_EQ(divvy({"list", "-o", "name", "-l", "sweep=7"}).out, "19\n17\n");
  EXPECT_EQ(divvy({"list", "-o", "name", "-l", "sweep=7", "--limit", "1"}).out, "19\n");
  EXPECT_EQ(divvy({"list", "-o", "name", "-l", "sweep", "-l", "stage=test"}).out, "19\n");
  EXPECT_EQ(divvy({"list", "-l", "=7"}).status, kExitUsage);
}

TEST_F(JobChoice, DeleteByLabelMeansOnesOwnJobs) {
  daemon_.on("GET /v1/whoami", R"({"name":"ada","role":"admin"})");
  daemon_.on("GET /v1/jobs", kLabelled);
  daemon_.on("DELETE /v1/jobs/17", R"({"id":17,"state":"cancelled"})");
  daemon_.on("DELETE /v1/jobs/19", R"({"id":19,"state":"cancelled"})");
  const CliOutcome outcome = divvy({"delete", "-l", "sweep=7"});
  EXPECT_EQ(outcome.status, kExitOk) << outcome.err;
  EXPECT_EQ(outcome.out, "job 19 is cancelled\njob 17 is cancelled\n");
  EXPECT_TRUE(contains(daemon_.asked()[1], "owner=ada")) << daemon_.asked()[1];
  EXPECT_EQ(divvy({"delete"}).status, kExitUsage);
  EXPECT_EQ(divvy({"delete", "17", "-l", "sweep=7"}).status, kExitUsage) << "which are meant?";
}

}  // namespace
}  // namespace divvy::cli
