#include "run/member_start.h"

#include <gtest/gtest.h>
#include <unistd.h>

namespace divvy::run {
namespace {

model::Job a_job() {
  model::JobSpec spec(*model::Request::parse("0.3"));
  spec.name = "train";
  spec.command = {"python", "train.py"};
  spec.environment = {{"LR", "0.1"}};
  spec.limits.ram = gib(2);
  spec.grace = std::chrono::seconds(9);
  model::Job job(model::JobId(7), "alice", spec, WallTime());
  job.attempt = 2;
  return job;
}

const MachineUser kAlice{1000, 1001, {44}, {"alice", "/home/alice", "/bin/bash"}};
const MemberGrant kGrant{{{"DIVVY_SOCKET", "/run/s"}}, {"divvy.dev/slice=job-7.2.0"}};

TEST(MemberStart, OfAPlainProcessIsTheUsersWithTheVariablesOfItsSlice) {
  const MemberStart member = member_start(a_job(), 0, {"host"}, kAlice, kGrant);
  EXPECT_EQ(to_string(member.key), "job-7.2.0");
  EXPECT_EQ(member.uid, 1000U);
  EXPECT_EQ(member.groups, std::vector<gid_t>{44});
  EXPECT_EQ(member.working_directory, "/home/alice");
  EXPECT_EQ(member.environment.at("DIVVY_SOCKET"), "/run/s");
  EXPECT_EQ(member.environment.at("HOME"), "/home/alice");
  EXPECT_EQ(member.environment.at("LR"), "0.1");
  EXPECT_EQ(member.environment.at("DIVVY_JOB_NAME"), "train");
  EXPECT_EQ(member.limits.ram, gib(2));
  EXPECT_EQ(member.grace, std::chrono::seconds(9));
  EXPECT_TRUE(member.cdi_devices.empty());
}

TEST(MemberStart, OfAContainerHasTheDeviceInstead) {
  model::Job job = a_job();
  job.spec.container.emplace();
  job.spec.container->image = "x";
  const MemberStart member = member_start(job, 0, {"host"}, kAlice, kGrant);
  EXPECT_EQ(member.cdi_devices, kGrant.cdi_devices);
  EXPECT_FALSE(member.environment.contains("DIVVY_SOCKET"));
  EXPECT_FALSE(member.environment.contains("HOME"));
  EXPECT_EQ(member.working_directory, "");
}

TEST(MachineUser, IsFoundByNameAndNumber) {
  const auto root = find_user("root");
  ASSERT_TRUE(root);
  EXPECT_EQ(root->uid, 0U);
  EXPECT_EQ(find_user(uid_t{0})->account.name, "root");
  EXPECT_EQ(find_user("nobody-of-this-name").error().code, ErrorCode::kNotFound);
}

}  // namespace
}  // namespace divvy::run
