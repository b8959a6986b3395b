#include "api/api.h"

#include <gtest/gtest.h>

#include <type_traits>

#include "base/temporary_folder.h"
#include "control/testing.h"
#include "jobs/testing.h"
#include "store/people_table.h"

namespace divvy::api {
namespace {

using model::Role;

// A row that names no permission does not compile, and nobody but Api makes a Call.
static_assert(!std::is_default_constructible_v<Needs>);
static_assert(!std::is_default_constructible_v<Route>);
static_assert(!std::is_constructible_v<Call, const Parts&, const net::HttpRequest&,
                                       const net::Caller&, const model::Person&>);

constexpr uid_t kCleo = 3'999'997;
constexpr uid_t kDaemon = 3'999'998;

// How often a handler of the recording table was called.
int g_called = 0;

// Handlers that take the same and only count.
struct Recording {
  static Answer open() { return count(); }
  static Answer plain(const Call& /*call*/) { return count(); }
  static Answer job(const Call& /*call*/, const model::Job& /*job*/) { return count(); }
  static Answer name(const Call& /*call*/, const std::string& /*name*/) { return count(); }
  static Answer queue(const Call& /*call*/, const QueuePath& /*path*/) { return count(); }

  Handler operator()(OpenHandler /*handler*/) const { return &open; }
  Handler operator()(PlainHandler /*handler*/) const { return &plain; }
  Handler operator()(JobHandler /*handler*/) const { return &job; }
  Handler operator()(NameHandler /*handler*/) const { return &name; }
  Handler operator()(QueueHandler /*handler*/) const { return &queue; }

 private:
  static Answer count() {
    ++g_called;
    return net::HttpResponse{};
  }
};

std::vector<Route> recording_table() {
  std::vector<Route> table(routes().begin(), routes().end());
  for (Route& route : table) route.handler = std::visit(Recording{}, route.handler);
  return table;
}

// Somebody who comes, and what is true of them.
struct Visitor {
  std::string name;
  std::string token;  // empty: comes with none
  std::optional<uid_t> socket = std::nullopt;
  bool is_known = true;
  bool owns_job = false;
  bool is_admin = false;
  bool is_machine_user = false;
  bool is_root = false;
};

// The rules again, said of people instead of asked of may().
bool is_allowed(Permission permission, const Visitor& visitor) {
  switch (permission) {
    case Permission::kAnyone:
      return true;
    case Permission::kKnown:
    case Permission::kOwn:
    case Permission::kSeeJob:
      return visitor.is_known;
    case Permission::kLookInsideJob:
    case Permission::kChangeJob:
      return visitor.owns_job || visitor.is_admin;
    case Permission::kMachineUser:
      return visitor.is_machine_user || visitor.is_admin;
    case Permission::kAdmin:
      return visitor.is_admin;
    case Permission::kDaemonUser:
      return visitor.is_root;
  }
  return false;
}

int expected_status(const Route& route, const Visitor& visitor) {
  const Permission needed = route.needs.permission;
  if (needed == Permission::kAnyone) return 200;
  if (!visitor.is_known) return 401;
  if (route.from == From::kSocket && !visitor.socket) return 501;
  return is_allowed(needed, visitor) ? 200 : 403;
}

class ApiTest : public ::testing::Test {
 protected:
  void SetUp() override {
    g_called = 0;
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
    api_.emplace(Parts{.dispatcher = *dispatcher_,
                       .database = *database_,
                       .people = *people_,
                       .agents = agents_,
                       .clock = clock_,
                       .bell = bell_,
                       .kept_for = [] { return model::Seconds(0); },
                       .configured = [] { return jobs::Settings(); }},
                 table_);
  }
  void TearDown() override {
    api_.reset();
    dispatcher_.reset();
    database_.reset();
  }

  // Their token.
  std::string add(const std::string& name, Role role, std::optional<uid_t> uid = {}) const {
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
  [[nodiscard]] net::HttpResponse ask(const Visitor& visitor, std::string_view method,
                                      const std::string& path) const {
    net::HttpRequest request{
        .method = std::string(method), .path = path, .query = {}, .body = {}, .headers = {}};
    if (!visitor.token.empty()) request.headers["authorization"] = "Bearer " + visitor.token;
    return api_->handle(
        request, visitor.socket
                     ? net::Caller(-1, 1, *visitor.socket, *visitor.socket)
                     : net::Caller(-1, 0, net::Caller::kNobody, net::Caller::kNobody, "10.0.0.7"));
  }
  // The route's path with something that is there in the place of what is in braces.
  [[nodiscard]] std::string path_of(const Route& route) const {
    std::string path(route.path);
    const std::size_t open = path.find('{');
    if (open == std::string::npos) return path;
    const bool of_job = std::holds_alternative<JobHandler>(route.handler);
    const bool of_queue = std::holds_alternative<QueueHandler>(route.handler);
    return path.replace(open, path.find('}') - open + 1,
                        of_job     ? std::to_string(job_.value())
                        : of_queue ? "research/vision"
                                   : "ada");
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
  const std::vector<Route> table_ = recording_table();
  std::optional<Api> api_;
};

TEST_F(ApiTest, NoHandlerIsCalledForWhomItsRowDoesNotAllow) {
  const std::vector<Visitor> visitors = {
      {.name = "a stranger", .token = "", .is_known = false},
      {.name = "a token that is not valid", .token = "divvy_guess", .is_known = false},
      {.name = "somebody else", .token = add("bob", Role::kUser)},
      {.name = "somebody else with a uid",
       .token = add("cleo", Role::kUser, kCleo),
       .is_machine_user = true},
      {.name = "the same on the socket", .token = "", .socket = kCleo, .is_machine_user = true},
      {.name = "the owner", .token = add("ada", Role::kUser), .owns_job = true},
      {.name = "an admin", .token = add("eve", Role::kAdmin), .is_admin = true},
      {.name = "an admin with a uid",
       .token = add("finn", Role::kAdmin, kCleo + 10),
       .is_admin = true,
       .is_machine_user = true},
      {.name = "root",
       .token = "",
       .socket = 0,
       .is_admin = true,
       .is_machine_user = true,
       .is_root = true}};
  for (const Route& route : table_) {
    for (const Visitor& visitor : visitors) {
      g_called = 0;
      const int status = ask(visitor, route.method, path_of(route)).status;
      EXPECT_EQ(status, expected_status(route, visitor)) << route.id << ", " << visitor.name;
      EXPECT_EQ(g_called, status == 200 ? 1 : 0) << route.id << ", " << visitor.name;
    }
  }
}

TEST_F(ApiTest, AJobIsLookedForOnlyForThoseWhoAreKnown) {
  const Visitor bob{.name = "bob", .token = add("bob", Role::kUser)};
  const Visitor stranger{.name = "a stranger", .token = "", .is_known = false};
  EXPECT_EQ(ask(bob, "GET", "/v1/jobs/99/logs").status, 404);
  EXPECT_EQ(ask(bob, "GET", "/v1/jobs/x").status, 400);
  EXPECT_EQ(ask(bob, "GET", "/v1/jobs/0").status, 400);
  EXPECT_EQ(ask(bob, "GET", "/v1/jobs/9223372036854775808").status, 400);
  for (const char* const path : {"/v1/jobs/1", "/v1/jobs/99", "/v1/jobs/x"}) {
    EXPECT_EQ(ask(stranger, "GET", path).status, 401) << path;
  }
  EXPECT_EQ(g_called, 0);
}

TEST_F(ApiTest, WhatIsNotInTheTableIsAnsweredWithoutAHandler) {
  const Visitor root{.name = "root", .token = "", .socket = 0};
  EXPECT_EQ(ask(root, "GET", "/v1/nothing").status, 404);
  EXPECT_EQ(ask(root, "PUT", "/v1/jobs").headers.at("allow"), "POST, GET");
  EXPECT_EQ(g_called, 0);
}

}  // namespace
}  // namespace divvy::api
