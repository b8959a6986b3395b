#include "cli/top_tables.h"

#include <gtest/gtest.h>

#include <boost/json.hpp>

#include "cli/fake_daemon.h"
#include "cli/testing.h"

namespace divvy::cli {
namespace {

namespace json = boost::json;

json::object slice(const std::string& gpu, int share, json::value used, int waited = 0) {
  return {{"gpu", json::object{{"index", 0}, {"uuid", gpu}, {"model", "NVIDIA H200"}}},
          {"shareThousandths", share},
          {"capped", false},
          {"memoryLimitBytes", 10'000'000},
          {"memoryUsedBytes", 1'000'000},
          {"usedShareThousandths", std::move(used)},
          {"waitedShareThousandths", waited}};
}

json::object tenant(int id, json::value job, const std::string& name, json::array slices) {
  return {{"id", id},
          {"job", std::move(job)},
          {"name", name},
          {"user", "ada"},
          {"class", "batch"},
          {"state", "running"},
          {"slices", std::move(slices)}};
}

json::object gpu(const std::string& uuid, const std::string& node) {
  return {{"uuid", uuid}, {"node", node}, {"model", "NVIDIA H200"}, {"memoryBytes", 100'000'000}};
}

// A gang of two over two nodes, one that is idle, and one of which nobody knows.
std::string stats_text() {
  return json::serialize(json::object{
      {"gpus", json::array{gpu("A", "node-a"), gpu("B", "node-a"), gpu("C", "node-b")}},
      {"tenants", json::array{tenant(1, 17, "train", {slice("A", 300, 100, 40)}),
                              tenant(2, 17, "train", {slice("C", 300, 250)}),
                              tenant(3, 18, "idle", {slice("A", 200, 0, 70), slice("B", 1000, 0)}),
                              tenant(4, nullptr, "mine", {slice("B", 100, nullptr)}),
                              tenant(5, nullptr, "also mine", {slice("gone", 100, nullptr)})}}});
}

// Of a member only the number of its job is known.
Answer jobs() { return Answer::parse(R"({"items":[{"id":17,"name":"tune"}]})").value(); }

std::string shown(const ListView& view, const std::string& document,
                  OutputFormat format = OutputFormat::kTable) {
  return show_list(view, document, format, "", plain_style()).value();
}

TEST(TopNodes, SumUpWhatIsHeldAndUsedAndWhoWaits) {
  const Answer stats = Answer::parse(stats_text()).value();
  const json::value list = json::parse(node_use_document(stats, jobs()));
  ASSERT_EQ(list.at("items").as_array().size(), 2U);
  const json::object& busiest = list.at("items").at(0).as_object();
  EXPECT_EQ(busiest.at("name"), "node-b");
  EXPECT_EQ(busiest.at("shareThousandths"), 300);
  EXPECT_EQ(busiest.at("usedShareThousandths"), 250);
  EXPECT_EQ(busiest.at("waiting"), json::array());
  const json::object& other = list.at("items").at(1).as_object();
  EXPECT_EQ(other.at("gpus"), 2);
  EXPECT_EQ(other.at("memoryBytes"), 200'000'000);
  EXPECT_EQ(other.at("shareThousandths"), 1600);
  EXPECT_EQ(other.at("usedShareThousandths"), 100);
  EXPECT_EQ(other.at("memoryLimitBytes"), 40'000'000);
  EXPECT_EQ(other.at("waiting"), (json::array{"idle", "tune"}));
  EXPECT_NE(shown(node_use_view(), node_use_document(stats, jobs())).find("idle, tune\n"),
            std::string::npos);
}

TEST(TopJobs, AreTheirMembersTogetherTheBusiestFirst) {
  const Answer stats = Answer::parse(stats_text()).value();
  const json::value list = json::parse(job_use_document(stats, jobs()));
  ASSERT_EQ(list.at("items").as_array().size(), 4U);
  const json::object& first = list.at("items").at(0).as_object();
  EXPECT_EQ(first.at("job"), 17);
  EXPECT_EQ(first.at("name"), "tune");
  EXPECT_EQ(first.at("members"), 2);
  EXPECT_EQ(first.at("shareThousandths"), 600);
  EXPECT_EQ(first.at("usedShareThousandths"), 350);
  EXPECT_EQ(first.at("waitedShareThousandths"), 40);
  EXPECT_EQ(first.at("nodes"), (json::array{"node-a", "node-b"}));
  EXPECT_EQ(list.at("items").at(1).at("job"), 18);
  EXPECT_TRUE(list.at("items").at(2).at("usedShareThousandths").is_null());
  EXPECT_TRUE(list.at("items").at(3).at("job").is_null());
  EXPECT_NE(shown(job_use_view(), job_use_document(stats, jobs()), OutputFormat::kWide)
                .find("node-a, node-b"),
            std::string::npos);
}

TEST(TopTables, AnAnswerThatIsNoStatsHasNoRows) {
  for (const char* const text :
       {"{}", "[]", "null", R"({"gpus":3,"tenants":[1,{"slices":[2]}]})"}) {
    const Answer stats = Answer::parse(text).value();
    EXPECT_EQ(shown(node_use_view(), node_use_document(stats, jobs())),
              "there is no node with GPUs\n");
    EXPECT_TRUE(json::parse(job_use_document(stats, jobs())).at("items").is_array());
  }
}

TEST(TopTables, ArePrintedOnceWhereThereIsNoTerminal) {
  FakeDaemon daemon;
  daemon.on("GET /v1/stats", stats_text());
  const auto run = [&](const std::vector<std::string>& arguments) {
    return run_divvy(arguments, daemon.socket());
  };
  const auto jobs = run({"top", "jobs", "-o", "name", "--sort-by=-job"});
  EXPECT_EQ(jobs.status, 0) << jobs.err;
  EXPECT_TRUE(jobs.out.starts_with("18\n17\n")) << jobs.out;
  const auto nodes = run({"top", "nodes", "--once"});
  EXPECT_TRUE(nodes.out.starts_with("NODE    GPUS  HELD  USED")) << nodes.out;
  EXPECT_NE(run({"top", "nodes", "-o", "xml"}).status, 0);
  EXPECT_NE(run({"top", "jobs", "--sort-by", "colour"}).status, 0);
}

}  // namespace
}  // namespace divvy::cli
