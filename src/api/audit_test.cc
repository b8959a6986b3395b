// Who changed what, as the whole API writes it down.
#include <boost/json.hpp>

#include "api/testing.h"
#include "store/audit_table.h"

namespace divvy::api {
namespace {

namespace json = boost::json;
using model::Role;
using store::AuditRow;

constexpr uid_t kCleo = 3'999'997;

class AuditTest : public testing::ApiFixture {
 protected:
  void SetUp() override {
    ApiFixture::SetUp();
    ada_ = add("ada", Role::kUser);
    eve_ = add("eve", Role::kAdmin);
    serve(routes());
  }

  [[nodiscard]] net::HttpResponse send(const std::string& token, std::string method,
                                       std::string path, std::string body = {},
                                       std::string query = {}) const {
    return ask({.method = std::move(method),
                .path = std::move(path),
                .query = std::move(query),
                .body = std::move(body)},
               token);
  }
  // What there is, oldest first. What nobody waits for is written before a change that is.
  [[nodiscard]] std::vector<AuditRow> entries() const {
    EXPECT_TRUE(database_->commit([](store::Connection&) { return Status(); }));
    store::AuditFilter filter;
    filter.oldest_first = true;
    return database_
        ->read([&](store::Connection& connection) {
          return store::AuditTable(connection).list(filter);
        })
        .value();
  }

  std::string ada_;
  std::string eve_;
};

TEST_F(AuditTest, SaysWhoAskedForWhatFromWhereAndWhatBecameOfIt) {
  ASSERT_EQ(send(ada_, "POST", "/v1/jobs", R"({"gpu":"0.3","command":["true"]})").status, 201);
  ASSERT_EQ(send(ada_, "DELETE", "/v1/jobs/1").status, 200);
  EXPECT_EQ(
      ask({.method = "POST", .path = "/v1/jobs/1/suspend", .query = {}, .body = {}}, "", kCleo)
          .status,
      403);
  const auto audit = entries();
  ASSERT_EQ(audit.size(), 3U);
  EXPECT_EQ(audit[0].at, clock_.wall_now());
  EXPECT_EQ(audit[0].user, "ada");
  EXPECT_EQ(audit[0].caller, "10.0.0.7");
  EXPECT_EQ(audit[0].token, ada_.substr(6, 16)) << "which one it was, and nothing of its secret";
  EXPECT_EQ(audit[0].action, "submitJob");
  EXPECT_EQ(audit[0].object, "/v1/jobs");
  EXPECT_EQ(audit[0].status, 201);
  EXPECT_EQ(audit[0].outcome, "/v1/jobs/2");
  EXPECT_EQ(audit[1].action, "cancelJob");
  EXPECT_EQ(audit[1].object, "/v1/jobs/1");
  EXPECT_EQ(audit[1].outcome, "");
  EXPECT_EQ(audit[2].user, "uid-3999997");
  EXPECT_EQ(audit[2].caller, "uid 3999997, pid 1");
  EXPECT_EQ(audit[2].token, "");
  EXPECT_EQ(audit[2].status, 403);
  EXPECT_EQ(audit[2].outcome, "job 1 belongs to ada; only they and admins may do that");
}

TEST_F(AuditTest, LeavesOutWhatChangesNothing) {
  EXPECT_EQ(send(ada_, "GET", "/v1/jobs").status, 200);
  EXPECT_EQ(
      send(ada_, "POST", "/v1/jobs", R"({"gpu":"0.3","command":["true"]})", "dry_run=true").status,
      200);
  (void)send(ada_, "POST", "/v1/what-if", "{}");
  EXPECT_EQ(send("divvy_guess", "DELETE", "/v1/jobs/1").status, 401)
      << "whoever it was is in the log of the daemon";
  EXPECT_TRUE(entries().empty());
}

TEST_F(AuditTest, ADryRunThatTheRouteDoesNotKnowHidesNoChange) {
  EXPECT_EQ(send(eve_, "POST", "/v1/people", R"({"name":"finn"})", "dry_run=true").status, 201);
  EXPECT_EQ(send(eve_, "DELETE", "/v1/people/finn", "", "dry_run").status, 200);
  const auto audit = entries();
  ASSERT_EQ(audit.size(), 2U);
  EXPECT_EQ(audit[0].action, "addPerson");
  EXPECT_EQ(audit[1].action, "removePerson");
}

// What there is of the audit log when a handler has committed something.
std::vector<AuditRow> g_seen;

Answer look_while_it_runs(const Call& call) {
  DIVVY_RETURN_IF_ERROR(call.parts.database.commit([](store::Connection& connection) -> Status {
    DIVVY_TRY(rows, store::AuditTable(connection).list({}));
    g_seen = std::move(rows);
    return {};
  }));
  return net::HttpResponse{};
}

TEST_F(AuditTest, AnEntryIsThereNoLaterThanWhatTheRequestChanges) {
  const std::vector<Route> table{{.method = "POST",
                                  .path = "/v1/jobs",
                                  .needs = Permission::kKnown,
                                  .handler = look_while_it_runs,
                                  .id = "submitJob",
                                  .text = "",
                                  .described = {}}};
  serve(table);
  EXPECT_EQ(send(ada_, "POST", "/v1/jobs").status, 200);
  ASSERT_EQ(g_seen.size(), 1U);
  EXPECT_EQ(g_seen[0].status, std::nullopt) << "as one is found that was never answered";
  EXPECT_EQ(entries().at(0).status, 200);
}

TEST_F(AuditTest, WhatSomebodyElseWroteCannotBreakALineOrATable) {
  EXPECT_EQ(send(ada_, "DELETE", "/v1/schedules/=x\"," + std::string(5000, 'y')).status, 501);
  const auto audit = entries();
  ASSERT_EQ(audit.size(), 1U);
  EXPECT_LT(audit[0].object.size(), 400U);
  const std::string csv = send(eve_, "GET", "/v1/audit", "", "format=csv").body;
  EXPECT_EQ(std::ranges::count(csv, '\n'), 2);
}

TEST_F(AuditTest, ShowsEverybodyTheirOwnAndAdminsAll) {
  (void)send(ada_, "DELETE", "/v1/jobs/1");
  (void)send(eve_, "POST", "/v1/people", R"({"name":"finn"})");
  const auto users = [&](const std::string& token, const std::string& query) {
    (void)entries();
    const auto answered = send(token, "GET", "/v1/audit", "", query);
    EXPECT_EQ(answered.status, 200) << answered.body;
    std::vector<std::string> found;
    const json::value document = json::parse(answered.body);
    for (const json::value& one : document.at("items").as_array()) {
      found.emplace_back(one.at("user").as_string());
    }
    return found;
  };
  EXPECT_EQ(users(ada_, ""), std::vector<std::string>{"ada"});
  EXPECT_EQ(users(ada_, "user=eve"), std::vector<std::string>{"ada"});
  EXPECT_EQ(users(eve_, ""), (std::vector<std::string>{"eve", "ada"})) << "newest first";
  EXPECT_EQ(users(eve_, "order=oldest&limit=1"), std::vector<std::string>{"ada"});
  EXPECT_EQ(users(eve_, "order=oldest&after=1"), std::vector<std::string>{"eve"});
  EXPECT_EQ(users(eve_, "action=cancelJob"), std::vector<std::string>{"ada"});
  EXPECT_EQ(send(eve_, "GET", "/v1/audit", "", "order=upwards").status, 400);
  EXPECT_EQ(send(eve_, "GET", "/v1/audit", "", "limit=0").status, 400);
  for (const char* const method : {"POST", "PUT", "PATCH", "DELETE"}) {
    EXPECT_EQ(send(eve_, method, "/v1/audit").status, 405) << "nothing changes it";
  }
}

}  // namespace
}  // namespace divvy::api
