// The API over a real store and a queue on two GPUs that are made up. Only for tests.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <string>

#include "api/api.h"
#include "base/temporary_folder.h"
#include "control/testing.h"
#include "jobs/testing.h"
#include "store/people_table.h"

namespace divvy::api::testing {

class ApiFixture : public ::testing::Test {
 protected:
  static constexpr uid_t kDaemon = 3'999'998;

  void SetUp() override {
    database_ = store::Database::open(folder_ / "divvy.db").value();
    people_.emplace(*database_, clock_, kDaemon);
    dispatcher_ = control::Dispatcher::create({.database = *database_,
                                               .agents = agents_,
                                               .clock = clock_,
                                               .settings = {},
                                               .drive = control::Dispatcher::Drive::kCaller})
                      .value();
    control::NewJob job(jobs::testing::spec(300));
    job.owner = "ada";
    job_ = dispatcher_->submit(std::move(job)).value().jobs.front().id;
  }
  void TearDown() override {
    api_.reset();
    dispatcher_.reset();
    database_.reset();
  }

  void serve(std::span<const Route> table, SignIn* sign_in = nullptr) {
    api_.emplace(Parts{.dispatcher = *dispatcher_,
                       .database = *database_,
                       .people = *people_,
                       .agents = agents_,
                       .clock = clock_,
                       .bell = bell_,
                       .kept_for = [] { return model::Seconds(0); },
                       .configured = [] { return jobs::Settings(); },
                       .sign_in = sign_in},
                 table);
  }

  // Their token.
  std::string add(const std::string& name, model::Role role, std::optional<uid_t> uid = {}) const {
    std::string token;
    const Status done = database_->commit([&](store::Connection& connection) -> Status {
      store::PeopleTable table(connection);
      DIVVY_RETURN_IF_ERROR(
          table.add({.name = name, .role = role, .uid = uid, .created = {}, .disabled = false}));
      DIVVY_TRY(made, table.add_token(name, "", clock_.wall_now(), std::nullopt));
      token = made.text;
      return {};
    });
    EXPECT_TRUE(done) << done.error().message;
    return token;
  }
  // On the socket with a uid, otherwise from the network.
  [[nodiscard]] net::HttpResponse ask(net::HttpRequest request, const std::string& token,
                                      std::optional<uid_t> socket = {}) const {
    if (!token.empty()) request.headers["authorization"] = "Bearer " + token;
    return api_->handle(request, socket ? net::Caller(-1, 1, *socket, *socket)
                                        : net::Caller(-1, 0, net::Caller::kNobody,
                                                      net::Caller::kNobody, "10.0.0.7"));
  }

  TemporaryFolder folder_;
  ManualClock clock_;
  EventBell bell_;
  std::unique_ptr<store::Database> database_;
  std::optional<People> people_;
  control::testing::FakeAgent machine_{control::testing::machine_state(jobs::testing::fleet(1, 2))};
  agent::Agents agents_{{&machine_}};
  std::unique_ptr<control::Dispatcher> dispatcher_;
  model::JobId job_{1};
  std::optional<Api> api_;
};

}  // namespace divvy::api::testing
