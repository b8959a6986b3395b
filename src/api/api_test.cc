#include "api/api.h"

#include <type_traits>

#include "api/testing.h"

namespace divvy::api {
namespace {

using model::Role;

// A row that names no permission does not compile, and nobody but Api makes a Call.
static_assert(!std::is_default_constructible_v<Needs>);
static_assert(!std::is_default_constructible_v<Route>);
static_assert(!std::is_constructible_v<Call, const Parts&, const net::HttpRequest&,
                                       const net::Caller&, const model::Person&>);

constexpr uid_t kCleo = 3'999'997;

// How often a handler of the recording table was called.
int g_called = 0;

// Handlers that take the same and only count.
struct Recording {
  static Answer open() { return count(); }
  static Answer plain(const Call& /*call*/) { return count(); }
  static Answer job(const Call& /*call*/, const model::Job& /*job*/) { return count(); }
  static Answer name(const Call& /*call*/, const std::string& /*name*/) { return count(); }
  static Answer queue(const Call& /*call*/, const QueuePath& /*path*/) { return count(); }

  static Answer stranger(const StrangerCall& /*call*/) { return count(); }

  Handler operator()(OpenHandler /*handler*/) const { return &open; }
  Handler operator()(StrangerHandler /*handler*/) const { return &stranger; }
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

class ApiTest : public testing::ApiFixture {
 protected:
  void SetUp() override {
    g_called = 0;
    ApiFixture::SetUp();
    serve(table_);
  }
  using ApiFixture::ask;
  [[nodiscard]] net::HttpResponse ask(const Visitor& visitor, std::string_view method,
                                      const std::string& path) const {
    return ask({.method = std::string(method), .path = path, .query = {}, .body = {}},
               visitor.token, visitor.socket);
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

  const std::vector<Route> table_ = recording_table();
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
