#include "run/launch_environment.h"

#include <gtest/gtest.h>

#include <set>

#include "model/member_port.h"

namespace divvy::run {
namespace {

Launch gang(std::uint32_t rank, std::vector<std::string> hosts) {
  Launch launch;
  launch.job = model::JobId(7);
  launch.name = "train";
  launch.queue = "research/vision";
  launch.owner = "alice";
  launch.attempt = 2;
  launch.rank = rank;
  launch.hosts = std::move(hosts);
  launch.port = 20'100;
  return launch;
}

TEST(LaunchEnvironment, OfOneMemberHasNothingThatProgramsTakeForAGang) {
  const Environment found = launch_environment(gang(0, {"a"}));
  EXPECT_EQ(found.at("DIVVY_JOB_ID"), "7");
  EXPECT_EQ(found.at("DIVVY_JOB_NAME"), "train");
  EXPECT_EQ(found.at("DIVVY_QUEUE"), "research/vision");
  EXPECT_EQ(found.at("DIVVY_ATTEMPT"), "2");
  EXPECT_EQ(found.at("DIVVY_MEMBERS"), "1");
  for (const auto& [name, value] : found) EXPECT_TRUE(name.starts_with("DIVVY_")) << name;
}

TEST(LaunchEnvironment, OfAGangSaysWhoAmIAndWhereIsTheFirst) {
  const Environment found = launch_environment(gang(3, {"a", "a", "b", "b"}));
  EXPECT_EQ(found.at("RANK"), "3");
  EXPECT_EQ(found.at("WORLD_SIZE"), "4");
  EXPECT_EQ(found.at("LOCAL_RANK"), "1");
  EXPECT_EQ(found.at("LOCAL_WORLD_SIZE"), "2");
  EXPECT_EQ(found.at("NODE_RANK"), "1");
  EXPECT_EQ(found.at("GROUP_WORLD_SIZE"), "2");
  EXPECT_EQ(found.at("MASTER_ADDR"), "a");
  EXPECT_EQ(found.at("MASTER_PORT"), "20100");
  EXPECT_EQ(found.at("OMPI_COMM_WORLD_RANK"), "3");
  EXPECT_EQ(found.at("OMPI_COMM_WORLD_LOCAL_SIZE"), "2");
  EXPECT_EQ(found.at("PMI_RANK"), "3");
  EXPECT_EQ(found.at("PMI_SIZE"), "4");
  EXPECT_EQ(found.at("DIVVY_HOSTS"), "a,a,b,b");
}

TEST(LaunchEnvironment, NumbersMembersWithinTheirHostWhereverTheyStand) {
  const std::vector<std::string> hosts = {"a", "b", "a", "c", "b", "a"};
  const std::vector<std::string> local = {"0", "0", "1", "0", "1", "2"};
  const std::vector<std::string> node = {"0", "1", "0", "2", "1", "0"};
  for (std::uint32_t rank = 0; rank < hosts.size(); ++rank) {
    const Environment found = launch_environment(gang(rank, hosts));
    EXPECT_EQ(found.at("LOCAL_RANK"), local[rank]);
    EXPECT_EQ(found.at("NODE_RANK"), node[rank]);
  }
}

TEST(LaunchEnvironment, GivesTensorFlowOnePortPerWorker) {
  EXPECT_EQ(launch_environment(gang(1, {"a", "a"})).at("TF_CONFIG"),
            R"({"cluster":{"worker":["a:20100","a:20101"]},"task":{"type":"worker","index":1}})");
}

TEST(LaunchEnvironment, ProposesAPortToEveryMember) {
  EXPECT_EQ(launch_environment(gang(0, {"a"})).at("DIVVY_PORT"), "20100");
  EXPECT_EQ(launch_environment(gang(1, {"a", "b"})).at("DIVVY_PORT"), "20101");
}

TEST(LaunchEnvironment, TellsAnArrayTaskItsIndex) {
  Launch launch = gang(0, {"a"});
  launch.task = model::ArrayTask{model::JobId(5), 12};
  const Environment found = launch_environment(launch);
  EXPECT_EQ(found.at("DIVVY_ARRAY_ID"), "5");
  EXPECT_EQ(found.at("DIVVY_ARRAY_INDEX"), "12");
}

TEST(LaunchEnvironment, PortsOfNeighbouringJobsDoNotMeet) {
  std::set<std::uint16_t> seen;
  for (std::uint64_t job = 1; job <= 200; ++job) {
    const std::uint16_t first = model::first_port(model::JobId(job), 1, 8);
    EXPECT_GE(first, 20'000);
    EXPECT_LE(first + 8, 32'000);
    for (std::uint16_t port = first; port < first + 8; ++port) seen.insert(port);
  }
  EXPECT_GE(seen.size(), 1'500U);
  EXPECT_GE(model::first_port(model::JobId(~0ULL), ~0U, 1'000'000), 20'000);
}

TEST(MemberEnvironment, LetsTheJobChooseButNotWhoItIs) {
  const Environment found =
      member_environment(Account{"alice", "/home/alice", "/bin/bash"},
                         {{"DIVVY_JOB_ID", "7"}, {"MASTER_PORT", "20100"}},
                         {{"DIVVY_JOB_ID", "8"}, {"MASTER_PORT", "29500"}, {"HOME", "/scratch"}},
                         {{"DIVVY_SOCKET", "/run/s"}});
  EXPECT_EQ(found.at("DIVVY_JOB_ID"), "7");
  EXPECT_EQ(found.at("MASTER_PORT"), "29500");
  EXPECT_EQ(found.at("HOME"), "/scratch");
  EXPECT_EQ(found.at("USER"), "alice");
  EXPECT_EQ(found.at("DIVVY_SOCKET"), "/run/s");
}

TEST(MemberEnvironment, PreloadsTheSlicesLibraryBeforeTheJobsOwn) {
  const Environment slice = {{"LD_PRELOAD", "/d/libdivvy.so"}};
  EXPECT_EQ(member_environment({}, {}, {{"LD_PRELOAD", "libx.so"}}, slice).at("LD_PRELOAD"),
            "/d/libdivvy.so:libx.so");
  EXPECT_EQ(member_environment({}, {}, {}, slice).at("LD_PRELOAD"), "/d/libdivvy.so");
  EXPECT_EQ(member_environment({}, {}, {}, {}).size(), 0U) << "a container has its image's";
}

}  // namespace
}  // namespace divvy::run
