// Where the replicas of a service go.
#include <gtest/gtest.h>

#include <set>

#include "jobs/queue.h"
#include "jobs/testing.h"
#include "model/service_label.h"

namespace divvy::jobs {
namespace {

using model::JobId;
using testing::Desk;
using testing::fleet;
using testing::spec;

model::JobSpec replica(std::uint32_t share, const std::string& service = "chat") {
  model::JobSpec job = spec(share);
  job.labels[model::kServiceLabel] = service;
  return job;
}

std::string gpu_of(Desk& desk, JobId id) {
  const model::Job job = desk.job(id);
  return job.members.empty() ? "" : job.members[0].slices.at(0).gpu().str();
}

TEST(QueueServices, ReplicasGoToGpusThatNoOtherOneHas) {
  Desk desk({}, fleet(1, 4));
  std::set<std::string> gpus;
  for (int i = 0; i < 4; ++i) {
    const JobId id = desk.submit(replica(200));
    desk.run();
    gpus.insert(gpu_of(desk, id));
  }
  EXPECT_EQ(gpus.size(), 4U);
  const JobId fifth = desk.submit(replica(200));
  desk.run();
  EXPECT_TRUE(gpus.contains(gpu_of(desk, fifth))) << "where there is no other, beside one";
}

TEST(QueueServices, ReplicasThatComeTogetherAreApartToo) {
  Desk desk({}, fleet(2, 2));
  std::vector<JobId> ids;
  for (int i = 0; i < 4; ++i) ids.push_back(desk.submit(replica(300)));
  desk.run();
  std::set<std::string> gpus;
  for (const JobId id : ids) gpus.insert(gpu_of(desk, id));
  EXPECT_EQ(gpus.size(), 4U);
}

TEST(QueueServices, OthersServicesAndJobsAreNoSiblings) {
  Desk desk({}, fleet(1, 2));
  const JobId first = desk.submit(replica(200));
  desk.run();
  const JobId other = desk.submit(replica(200, "search"));
  const JobId of_ben = desk.submit(replica(200), "ben");
  const JobId plain = desk.submit(spec(200));
  desk.run();
  for (const JobId id : {other, of_ben, plain}) EXPECT_EQ(gpu_of(desk, id), gpu_of(desk, first));
}

TEST(QueueServices, NoReplicaWaitsForAGpuOfItsOwn) {
  Desk desk({}, fleet(1, 2));
  desk.submit(spec(1000));
  desk.run();
  const JobId first = desk.submit(replica(300));
  const JobId second = desk.submit(replica(300));
  desk.run();
  EXPECT_EQ(gpu_of(desk, first), gpu_of(desk, second));
  EXPECT_NE(gpu_of(desk, first), "");
}

TEST(QueueServices, ReplicasWithoutAGpuRunAnywhere) {
  Desk desk({}, fleet(1, 1));
  const JobId first = desk.submit(replica(0));
  const JobId second = desk.submit(replica(0));
  desk.run();
  EXPECT_EQ(desk.state(first), model::JobState::kRunning);
  EXPECT_EQ(desk.state(second), model::JobState::kRunning);
}

}  // namespace
}  // namespace divvy::jobs
