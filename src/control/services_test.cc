#include "control/services.h"

#include <gtest/gtest.h>

#include "control/testing.h"
#include "proxy/fake_proxy.h"
#include "serve/testing.h"

namespace divvy::control {
namespace {

using model::JobState;
using testing::TestDaemon;

// A machine with services, whose daemon can be killed and come back.
class ServicesTest : public ::testing::Test {
 protected:
  ServicesTest() { open(); }

  void open() {
    auto made = Services::create({.database = *daemon_.database,
                                  .dispatcher = *daemon_.dispatcher,
                                  .proxy = proxy_,
                                  .clock = daemon_.clock});
    ASSERT_TRUE(made) << made.error().message;
    services_ = *std::move(made);
  }
  void replace_daemon() {
    services_.reset();
    daemon_.kill();
    daemon_.open();
    open();
  }
  void make(std::uint32_t least, std::uint32_t most) {
    const auto made =
        services_->make("model", "ada", serve::test_settings(least, most), serve::test_replica());
    ASSERT_TRUE(made) << made.error().message;
  }
  serve::Service service() { return services_->find("model").value(); }
  // Rounds of both until nothing more happens.
  void settle(int rounds = 12) {
    for (int i = 0; i < rounds; ++i) {
      (void)services_->step();
      daemon_.settle();
    }
  }
  [[nodiscard]] std::size_t running() {
    const auto jobs = daemon_.database->read(
        [](store::Connection& connection) { return store::JobTable(connection).unfinished(); });
    return jobs->size();
  }
  [[nodiscard]] std::size_t asked() const {
    const proxy::Site* site = proxy_.find("model");
    return site == nullptr ? 0
                           : static_cast<std::size_t>(std::ranges::count_if(
                                 site->servers, [](const auto& one) { return one.weight > 0; }));
  }

  TestDaemon daemon_;
  proxy::FakeProxy proxy_;
  std::unique_ptr<Services> services_;
};

TEST_F(ServicesTest, ReplicasAreJobsOfTheOwnerWithPortsOfTheirOwn) {
  make(2, 2);
  settle();
  ASSERT_EQ(service().replicas.size(), 2U);
  std::set<std::string> ports;
  for (const auto& [id, known] : service().replicas) {
    const model::Job job = daemon_.stored(id);
    EXPECT_EQ(job.owner, "ada");
    EXPECT_EQ(job.spec.name, "model");
    EXPECT_EQ(job.spec.labels.at("divvy.service"), "model");
    EXPECT_EQ(job.spec.labels.at("divvy.port"), job.spec.environment.at("PORT"));
    ports.insert(job.spec.environment.at("PORT"));
    EXPECT_TRUE(known.ready);
  }
  EXPECT_EQ(ports.size(), 2U);
  EXPECT_EQ(asked(), 2U);
}

TEST_F(ServicesTest, ReplicasInContainersAreReachedOnThisMachineAlone) {
  model::JobSpec job = serve::test_replica();
  job.container = model::ContainerSpec{};
  job.container->image = "docker.io/library/x:1";
  ASSERT_TRUE(services_->make("model", "ada", serve::test_settings(1, 1), job));
  settle();
  ASSERT_EQ(service().replicas.size(), 1U);
  const model::Job made = daemon_.stored(service().replicas.begin()->first);
  ASSERT_EQ(made.spec.container->ports.size(), 1U);
  EXPECT_EQ(made.spec.environment.at("DIVVY_PUBLISH"), "loopback");
}

TEST_F(ServicesTest, AReplicaThatDiedIsReplaced) {
  make(2, 2);
  settle();
  const model::JobId victim = service().replicas.begin()->first;
  daemon_.runtime.end({victim, 1, 0}, 1);
  settle();
  EXPECT_EQ(asked(), 1U) << "there is a pause after a failure";
  daemon_.clock.advance(std::chrono::seconds(2));
  settle();
  EXPECT_EQ(asked(), 2U);
  EXPECT_FALSE(service().replicas.contains(victim));
}

TEST_F(ServicesTest, AnotherDaemonFindsTheReplicasAndGoesOnWithAnUpdate) {
  make(2, 2);
  settle();
  ASSERT_TRUE(services_->change("model", [](serve::Service& one, WallTime now) {
    return serve::update(one, serve::test_replica("better"), 100, "ada", now);
  }));
  for (int i = 0; i < 30 && service().candidate; ++i) {
    replace_daemon();
    (void)services_->step();
    daemon_.settle();
    EXPECT_GE(asked(), 2U);
    EXPECT_LE(running(), 3U);
  }
  EXPECT_EQ(service().stable, 2U);
  settle();
  EXPECT_EQ(running(), 2U);
}

TEST_F(ServicesTest, AVersionThatDoesNotGetReadyIsTakenBack) {
  make(1, 1);
  settle();
  proxy_.sick.insert("j2");
  ASSERT_TRUE(services_->change("model", [](serve::Service& one, WallTime now) {
    return serve::update(one, serve::test_replica("worse"), 100, "ada", now);
  }));
  settle();
  daemon_.clock.advance(std::chrono::seconds(61));
  settle();
  EXPECT_FALSE(service().candidate);
  EXPECT_EQ(service().stable, 1U);
  EXPECT_EQ(running(), 1U);
  EXPECT_EQ(asked(), 1U);
}

TEST_F(ServicesTest, WhatEndedWhileNoDaemonWasThereIsAFailure) {
  make(1, 1);
  settle();
  daemon_.runtime.end({service().replicas.begin()->first, 1, 0}, 1);
  replace_daemon();
  settle();
  EXPECT_EQ(service().versions.front().failures, 1U);
}

TEST_F(ServicesTest, ADeletedServiceLeavesNothing) {
  make(2, 2);
  settle();
  ASSERT_TRUE(services_->change("model", [](serve::Service& one, WallTime) {
    one.deleting = true;
    return Status();
  }));
  settle();
  EXPECT_EQ(services_->find("model").error().code, ErrorCode::kNotFound);
  EXPECT_EQ(running(), 0U);
  EXPECT_TRUE(proxy_.sites.empty());
  const int before = proxy_.applied;
  EXPECT_FALSE(services_->step()) << "until something happens";
  EXPECT_EQ(proxy_.applied, before);
}

TEST_F(ServicesTest, TheFirstRequestWakesAServiceThatSleeps) {
  make(0, 2);
  settle();
  EXPECT_EQ(asked(), 1U) << "at first it shows that it works";
  daemon_.clock.advance(std::chrono::seconds(301));
  settle();
  EXPECT_EQ(running(), 0U);
  ASSERT_NE(proxy_.find("model"), nullptr) << "somebody may ask";
  proxy_.in_flight = 1;
  proxy_.requests = 1;
  settle();
  EXPECT_EQ(asked(), 1U);
}

TEST_F(ServicesTest, ReplicasAreAddedWhileTheyUseMoreOfTheirSharesThanTheyAreToUse) {
  serve::Settings settings = serve::test_settings(1, 3);
  settings.scale.in_flight = 0;
  settings.scale.gpu_use = 50;
  ASSERT_TRUE(services_->make("model", "ada", settings, serve::test_replica()));
  settle();
  ASSERT_EQ(asked(), 1U);
  // Of its fifth of a GPU: two fifths of all of it.
  daemon_.machine.active = {{{service().replicas.begin()->first, 1, 0}, 400}};
  for (int i = 0; i < 20 && service().desired == 1; ++i) {
    daemon_.clock.advance(std::chrono::seconds(1));
    settle(2);
  }
  EXPECT_EQ(service().desired, 3U) << "as many as there may be";
  settle();
  EXPECT_EQ(asked(), 3U);
  daemon_.machine.active.clear();
  for (const auto& [job, known] : service().replicas)
    daemon_.machine.active.push_back({{job, 1, 0}, 0});
  for (int i = 0; i < 120 && service().desired > 1; ++i) {
    daemon_.clock.advance(std::chrono::seconds(1));
    settle(2);
  }
  EXPECT_EQ(service().desired, 1U) << "nobody uses anything";
}

TEST_F(ServicesTest, AProxyThatSaysNothingChangesNothing) {
  make(2, 2);
  settle();
  proxy_.silent = true;
  settle();
  EXPECT_EQ(asked(), 2U);
  EXPECT_EQ(running(), 2U);
}

TEST_F(ServicesTest, ReplicasThatNobodyCanAskAreNotReplacedForIt) {
  make(1, 1);
  settle();
  const model::JobId job = service().replicas.begin()->first;
  proxy_.port_taken = service().settings.port;
  settle();
  daemon_.clock.advance(std::chrono::seconds(61));
  settle();
  EXPECT_NE(services_->seen("model").trouble, "");
  EXPECT_TRUE(service().replicas.contains(job));
  EXPECT_EQ(service().versions.front().failures, 0U);
  proxy_.port_taken.reset();
  settle();
  EXPECT_EQ(asked(), 1U);
  EXPECT_TRUE(service().replicas.contains(job));
}

TEST_F(ServicesTest, AReplicaThatBeganWhileNobodyCouldAskHasAllOfItsTimeAfterwards) {
  proxy_.port_taken = 8000;
  make(1, 1);
  settle();
  daemon_.clock.advance(std::chrono::seconds(61));
  settle();
  ASSERT_EQ(service().replicas.size(), 1U);
  EXPECT_EQ(service().versions.front().failures, 0U);
}

TEST_F(ServicesTest, AUserHasAtMostSoManyAndOthersStillHaveTheirs) {
  const auto make_one = [&](std::uint16_t port, const std::string& owner) {
    serve::Settings settings = serve::test_settings(0, 1);
    settings.port = port;
    const auto made =
        services_->make(fmt::format("s{}", port), owner, settings, serve::test_replica());
    return made ? std::string() : made.error().message;
  };
  const auto most = static_cast<std::uint16_t>(Services::kMostOfOneOwner);
  for (std::uint16_t i = 0; i < most; ++i) {
    ASSERT_EQ(make_one(static_cast<std::uint16_t>(8000 + i), "ada"), "");
  }
  EXPECT_EQ(make_one(9000, "ada"),
            "you have 50 services, and that is as many as there may be; delete one");
  EXPECT_EQ(make_one(9000, "bob"), "");
}

TEST_F(ServicesTest, AVersionIsCheckedWithWhatEachReplicaHasBesides) {
  make(1, 1);
  model::JobSpec job = serve::test_replica();
  for (int i = 0; i < 64; ++i) job.labels[fmt::format("l{}", i)] = "x";
  const Status could = services_->could_run(service(), job);
  ASSERT_FALSE(could);
  EXPECT_TRUE(could.error().message.starts_with("a replica: labels: 67 labels are more"))
      << could.error().message;
}

TEST_F(ServicesTest, ATroubleIsOverWhenWhatCausedItIs) {
  make(1, 1);
  settle();
  ASSERT_TRUE(services_->change("model", [](serve::Service& one, WallTime now) {
    model::JobSpec job = serve::test_replica();
    job.queue = "gone";
    return serve::update(one, std::move(job), 100, "ada", now);
  }));
  settle();
  EXPECT_NE(services_->seen("model").trouble.find("no replica of version 2"), std::string::npos)
      << services_->seen("model").trouble;
  ASSERT_TRUE(services_->change("model", [](serve::Service& one, WallTime now) {
    return serve::roll_back(one, {}, "ada", now);
  }));
  settle();
  EXPECT_EQ(services_->seen("model").trouble, "");
}

TEST_F(ServicesTest, JobsOfOthersAreNoReplicas) {
  make(1, 1);
  NewJob wanted(serve::test_replica());
  wanted.owner = "eve";
  wanted.spec.labels = {
      {"divvy.service", "model"}, {"divvy.version", "1"}, {"divvy.port", "10007"}};
  ASSERT_TRUE(daemon_.dispatcher->submit(std::move(wanted)));
  replace_daemon();
  settle();
  ASSERT_EQ(service().replicas.size(), 1U);
  EXPECT_EQ(daemon_.stored(service().replicas.begin()->first).owner, "ada");
}

TEST_F(ServicesTest, WhatCannotBeIsRefusedBeforeItIsMade) {
  proxy_.taken = 8000;
  const auto make = [&](const std::string& name, std::uint16_t port) {
    serve::Settings settings = serve::test_settings(1, 1);
    settings.port = port;
    const auto made = services_->make(name, "ada", settings, serve::test_replica());
    return made ? std::string() : made.error().message;
  };
  EXPECT_EQ(make("model", 8000), "port 8000 is taken by another program");
  EXPECT_EQ(make("model", 8001), "");
  EXPECT_EQ(make("model", 8002),
            "there is a service model at port 8001 already; take another name");
  EXPECT_EQ(make("other", 8001),
            "there is a service model at port 8001 already; take another port");
  proxy_.missing = true;
  EXPECT_EQ(make("third", 8003), "services need haproxy");
}

TEST_F(ServicesTest, AServiceThatIsDamagedHoldsUpNobodyElse) {
  make(1, 1);
  ASSERT_TRUE(daemon_.database->commit([](store::Connection& connection) {
    return store::ServiceTable(connection).insert({"broken", "ada", 8001, 1, "{}"});
  }));
  settle();
  EXPECT_EQ(asked(), 1U);
}

}  // namespace
}  // namespace divvy::control
