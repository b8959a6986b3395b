#include "api/people.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include "base/temporary_folder.h"
#include "store/people_table.h"

namespace divvy::api {
namespace {

using model::Person;
using model::Role;

constexpr uid_t kNobodyKnows = 3'999'999;  // Has no name in /etc/passwd
constexpr uid_t kDaemon = 3'999'998;

class PeopleTest : public ::testing::Test {
 protected:
  void SetUp() override {
    database_ = store::Database::open(folder_ / "divvy.db").value();
    people_.emplace(*database_, clock_, kDaemon);
  }
  void TearDown() override { database_.reset(); }

  void change(const std::function<Status(store::PeopleTable&)>& what) const {
    const Status done = database_->commit([&](store::Connection& connection) {
      store::PeopleTable table(connection);
      return what(table);
    });
    ASSERT_TRUE(done) << done.error().message;
  }
  void add(const std::string& name, std::optional<uid_t> uid, bool disabled = false) const {
    change([&](store::PeopleTable& table) {
      return table.add({.name = name,
                        .role = Role::kUser,
                        .uid = uid,
                        .created = clock_.wall_now(),
                        .disabled = disabled});
    });
  }
  [[nodiscard]] store::NewToken add_token(const std::string& user) const {
    store::NewToken token;
    change([&](store::PeopleTable& table) -> Status {
      DIVVY_TRY(made, table.add_token(user, "", clock_.wall_now(),
                                      clock_.wall_now() + std::chrono::hours(1)));
      token = made;
      return {};
    });
    return token;
  }
  [[nodiscard]] Result<Person> local(uid_t uid) const { return people_->local_person(uid); }
  [[nodiscard]] Result<Person> over_the_network(const std::string& authorization) const {
    net::HttpRequest request;
    if (!authorization.empty()) request.headers["authorization"] = authorization;
    auto known = people_->identify(
        request, net::Caller(-1, 0, net::Caller::kNobody, net::Caller::kNobody, "10.0.0.7"));
    if (!known) return err(known.error());
    return std::move(known->person);
  }

  TemporaryFolder folder_;
  ManualClock clock_;
  std::unique_ptr<store::Database> database_;
  std::optional<People> people_;
};

TEST_F(PeopleTest, OnTheSocketItIsWhoTheKernelSays) {
  const auto root = local(0);
  ASSERT_TRUE(root.has_value()) << root.error().message;
  EXPECT_EQ(root->name, "root");
  EXPECT_EQ(root->role, Role::kAdmin);
  EXPECT_EQ(local(kDaemon)->role, Role::kAdmin) << "who owns the state is not kept out by it";
  const auto somebody = local(kNobodyKnows);
  ASSERT_TRUE(somebody.has_value());
  EXPECT_EQ(somebody->name, "uid-3999999");
  EXPECT_EQ(somebody->role, Role::kUser);
  EXPECT_EQ(people_->identify({}, net::Caller(-1, 1, kNobodyKnows, 1))->person.name, "uid-3999999");
}

TEST_F(PeopleTest, AnOperatorMayTieAUserOfTheMachineToAPerson) {
  add("ada", kNobodyKnows);
  EXPECT_EQ(local(kNobodyKnows)->name, "ada");
}

TEST_F(PeopleTest, SomebodyElseOfTheSameNameIsSomebodyElse) {
  add("root", kNobodyKnows);
  EXPECT_EQ(local(kNobodyKnows)->name, "root");
  EXPECT_EQ(local(0)->name, "uid-0");
  EXPECT_EQ(local(0)->role, Role::kAdmin);
}

TEST_F(PeopleTest, APersonOfThatNameWithoutAUidIsTheUserOfTheMachine) {
  add("daemon", std::nullopt);
  const auto person = local(1);
  ASSERT_TRUE(person.has_value());
  EXPECT_EQ(person->name, "daemon");
  EXPECT_EQ(person->created, clock_.wall_now());
}

TEST_F(PeopleTest, WhoIsDisabledMayNotAndAnOperatorAlwaysMay) {
  add("ada", kNobodyKnows, true);
  EXPECT_EQ(local(kNobodyKnows).error().code, ErrorCode::kPermissionDenied);
  add("root", 0, true);
  EXPECT_TRUE(local(0).has_value());
}

TEST_F(PeopleTest, OverTheNetworkATokenSaysWhoItIs) {
  add("ada", std::nullopt);
  const store::NewToken token = add_token("ada");
  for (const char* scheme : {"Bearer ", "bearer ", "BEARER   "}) {
    const auto person = over_the_network(scheme + token.text);
    ASSERT_TRUE(person.has_value()) << person.error().message;
    EXPECT_EQ(person->name, "ada");
  }
  net::HttpRequest request;
  request.headers["authorization"] = "Bearer " + token.text;
  EXPECT_EQ(people_->identify(request, net::Caller(-1, 1, 0, 0))->person.name, "ada")
      << "also on the socket: it says as whom";
}

TEST_F(PeopleTest, WithoutATokenThatIsValidNobodyComesOverTheNetwork) {
  add("ada", std::nullopt);
  const store::NewToken token = add_token("ada");
  for (const std::string& header :
       {std::string(), std::string("Basic YTpi"), std::string("Bearer"), std::string("Bearer x"),
        "Bearer " + token.text + "0", token.text}) {
    const auto person = over_the_network(header);
    ASSERT_FALSE(person.has_value()) << header;
    EXPECT_EQ(person.error().code, ErrorCode::kPermissionDenied);
    const net::HttpResponse answer = People::refusal(person.error());
    EXPECT_EQ(answer.status, 401);
    EXPECT_EQ(answer.content_type, "application/problem+json");
    EXPECT_TRUE(answer.headers.contains("www-authenticate"));
  }
  clock_.advance(std::chrono::hours(1));
  EXPECT_FALSE(over_the_network("Bearer " + token.text).has_value()) << "it has expired";
}

TEST_F(PeopleTest, RemembersWhenATokenWasLastUsed) {
  add("ada", std::nullopt);
  const store::NewToken token = add_token("ada");
  ASSERT_TRUE(over_the_network("Bearer " + token.text).has_value());
  change([](store::PeopleTable&) { return Status{}; });  // Behind what was put off
  const auto tokens = database_->read(
      [](store::Connection& connection) { return store::PeopleTable(connection).tokens("ada"); });
  EXPECT_EQ(tokens->at(0).last_used, clock_.wall_now());
}

TEST(May, EverybodySeesTheOwnerLooksInsideAndAdminsDoEverything) {
  const Person ada{.name = "ada", .role = Role::kUser, .uid = {}, .created = {}, .disabled = false};
  const Person bob{.name = "bob", .role = Role::kUser, .uid = {}, .created = {}, .disabled = false};
  const Person eve{
      .name = "eve", .role = Role::kAdmin, .uid = {}, .created = {}, .disabled = false};
  const model::Job job(model::JobId(7), "ada", model::JobSpec(model::Request::parse("1").value()),
                       {});
  for (const Permission permission :
       {Permission::kSeeJob, Permission::kLookInsideJob, Permission::kChangeJob}) {
    EXPECT_TRUE(may(ada, permission, &job));
    EXPECT_TRUE(may(eve, permission, &job));
    EXPECT_EQ(may(bob, permission, &job).has_value(), permission == Permission::kSeeJob);
  }
  EXPECT_FALSE(may(ada, Permission::kChangeJob)) << "about no job";
  EXPECT_TRUE(may(eve, Permission::kAdmin));
  EXPECT_FALSE(may(ada, Permission::kAdmin));
  EXPECT_FALSE(may(ada, Permission::kAdmin, &job)) << "nor about a job of their own";
  EXPECT_NE(may(bob, Permission::kLookInsideJob, &job).error().message.find("ada"),
            std::string::npos);
}

TEST(May, ActsOnAMachineOnlyAsItsUser) {
  Person ada{.name = "ada", .role = Role::kUser, .uid = {}, .created = {}, .disabled = false};
  EXPECT_NE(may(ada, Permission::kMachineUser).error().message.find("--uid"), std::string::npos);
  ada.uid = kNobodyKnows;
  EXPECT_TRUE(may(ada, Permission::kMachineUser));
  // Only who could write the files themselves has the daemon write them.
  ada.uid = 0;
  EXPECT_FALSE(may(ada, Permission::kDaemonUser)) << "no admin";
  ada.role = Role::kAdmin;
  EXPECT_TRUE(may(ada, Permission::kDaemonUser));
  ada.uid = kNobodyKnows;
  EXPECT_FALSE(may(ada, Permission::kDaemonUser));
  ada.uid.reset();
  EXPECT_FALSE(may(ada, Permission::kDaemonUser));
}

}  // namespace
}  // namespace divvy::api
