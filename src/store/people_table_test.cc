#include "store/people_table.h"

#include <gtest/gtest.h>

#include "store/testing.h"
#include "store/token_secret.h"

namespace divvy::store {
namespace {

using model::Person;
using model::Role;

class PeopleTableTest : public TableTest {
 protected:
  void SetUp() override {
    TableTest::SetUp();
    commit([](Connection& connection) -> Status {
      DIVVY_RETURN_IF_ERROR(PeopleTable(connection).add(kAda));
      return PeopleTable(connection).add(kBob);
    });
  }

  [[nodiscard]] NewToken add_token(const std::string& user, std::optional<WallTime> expires = {}) {
    NewToken token;
    commit([&](Connection& connection) -> Status {
      DIVVY_TRY(made, PeopleTable(connection).add_token(user, "laptop", at_second(100), expires));
      token = made;
      return {};
    });
    return token;
  }
  [[nodiscard]] Result<PeopleTable::Owner> owner_of(const std::string& text, int second) const {
    return database_->read([&](Connection& connection) {
      return PeopleTable(connection).owner_of(text, at_second(second));
    });
  }
  [[nodiscard]] ErrorCode refusal(const Change& change) const {
    return database_->commit(change).error().code;
  }

  static inline const Person kAda{
      .name = "ada", .role = Role::kAdmin, .uid = 1000, .created = at_second(1), .disabled = false};
  static inline const Person kBob{
      .name = "bob", .role = Role::kUser, .uid = {}, .created = at_second(2), .disabled = false};
};

TEST_F(PeopleTableTest, PeopleComeBackAsTheyWere) {
  EXPECT_EQ(read([](Connection& connection) { return PeopleTable(connection).list(); }),
            (std::vector{kAda, kBob}));
  EXPECT_EQ(read([](Connection& connection) { return PeopleTable(connection).find("bob"); }), kBob);
  EXPECT_EQ(read([](Connection& connection) { return PeopleTable(connection).find_uid(1000); }),
            kAda);
  EXPECT_EQ(read([](Connection& connection) { return PeopleTable(connection).find_uid(0); }),
            std::nullopt);
}

TEST_F(PeopleTableTest, ANameAndAUidBelongToOne) {
  EXPECT_EQ(refusal([](Connection& connection) { return PeopleTable(connection).add(kBob); }),
            ErrorCode::kAlreadyExists);
  Person eve{.name = "eve", .role = Role::kUser, .uid = 1000, .created = {}, .disabled = false};
  EXPECT_EQ(refusal([&](Connection& connection) { return PeopleTable(connection).add(eve); }),
            ErrorCode::kAlreadyExists);
  eve.name = "bob";
  EXPECT_EQ(refusal([&](Connection& connection) { return PeopleTable(connection).change(eve); }),
            ErrorCode::kAlreadyExists);
  eve.name = "../eve";
  EXPECT_EQ(refusal([&](Connection& connection) { return PeopleTable(connection).add(eve); }),
            ErrorCode::kInvalidArgument);
  EXPECT_EQ(refusal([](Connection& connection) { return PeopleTable(connection).remove("eve"); }),
            ErrorCode::kNotFound);
}

TEST_F(PeopleTableTest, ATokenIsThatOfItsOwner) {
  const NewToken token = add_token("bob");
  const auto owner = owner_of(token.text, 200);
  ASSERT_TRUE(owner.has_value()) << owner.error().message;
  EXPECT_EQ(owner->person, kBob);
  EXPECT_EQ(owner->token, token.record);
}

TEST_F(PeopleTableTest, TheSecretIsNowhereInTheDatabase) {
  const NewToken token = add_token("bob");
  const std::string secret = split_token(token.text)->secret;
  const auto stored = read([](Connection& connection) -> Result<std::string> {
    DIVVY_TRY(query, connection.prepare("SELECT id || user || label || hash FROM tokens"));
    DIVVY_RETURN_IF_ERROR(query.step());
    return query.text(0);
  });
  EXPECT_EQ(stored.find(secret), std::string::npos);
  EXPECT_NE(stored.find(hash_text(secret)), std::string::npos);
}

TEST_F(PeopleTableTest, RefusesEveryInvalidTokenWithTheSameMessage) {
  const NewToken expiring = add_token("bob", at_second(150));
  EXPECT_TRUE(owner_of(expiring.text, 149).has_value());
  const Error refused = owner_of(expiring.text, 150).error();
  EXPECT_EQ(refused.code, ErrorCode::kPermissionDenied);

  const NewToken revoked = add_token("bob");
  commit([&](Connection& connection) {
    return PeopleTable(connection).revoke_token(revoked.record.id, at_second(120));
  });
  EXPECT_EQ(owner_of(revoked.text, 130).error(), refused);

  std::string wrong = add_token("ada").text;
  wrong.back() = wrong.back() == '0' ? '1' : '0';
  EXPECT_EQ(owner_of(wrong, 130).error(), refused);
  EXPECT_EQ(owner_of("", 130).error(), refused);
  EXPECT_EQ(owner_of("divvy_0000000000000000_" + std::string(64, '0'), 130).error(), refused);

  const NewToken disabled = add_token("ada");
  Person ada = kAda;
  ada.disabled = true;
  commit([&](Connection& connection) { return PeopleTable(connection).change(ada); });
  EXPECT_EQ(owner_of(disabled.text, 130).error(), refused);
}

TEST_F(PeopleTableTest, TokensAreListedWithWhatBecameOfThem) {
  const NewToken first = add_token("bob", at_second(1000));
  const NewToken second = add_token("ada");
  commit([&](Connection& connection) -> Status {
    DIVVY_RETURN_IF_ERROR(PeopleTable(connection).token_used(first.record.id, at_second(110)));
    DIVVY_RETURN_IF_ERROR(PeopleTable(connection).revoke_token(first.record.id, at_second(120)));
    return PeopleTable(connection).revoke_token(first.record.id, at_second(130));
  });
  TokenRecord expected = first.record;
  expected.last_used = at_second(110);
  expected.revoked = at_second(120);
  EXPECT_EQ(read([](Connection& connection) { return PeopleTable(connection).tokens("bob"); }),
            (std::vector{expected}));
  EXPECT_EQ(read([](Connection& connection) { return PeopleTable(connection).tokens({}); }).size(),
            2U);
  EXPECT_TRUE(PeopleTable::is_stale(second.record, at_second(101)));
  EXPECT_FALSE(PeopleTable::is_stale(expected, at_second(111)));
  EXPECT_TRUE(PeopleTable::is_stale(expected, at_second(170)));
}

TEST_F(PeopleTableTest, RefusesATokenForAnUnknownUserOrAPastExpiry) {
  EXPECT_EQ(refusal([](Connection& connection) -> Status {
              DIVVY_RETURN_IF_ERROR(PeopleTable(connection).add_token("eve", "", at_second(1), {}));
              return {};
            }),
            ErrorCode::kNotFound);
  EXPECT_EQ(refusal([](Connection& connection) -> Status {
              DIVVY_RETURN_IF_ERROR(
                  PeopleTable(connection).add_token("bob", "", at_second(5), at_second(5)));
              return {};
            }),
            ErrorCode::kInvalidArgument);
}

TEST_F(PeopleTableTest, RemovingAUserRemovesTheirTokens) {
  const NewToken token = add_token("bob");
  commit([](Connection& connection) { return PeopleTable(connection).remove("bob"); });
  EXPECT_FALSE(owner_of(token.text, 130).has_value());
  EXPECT_TRUE(
      read([](Connection& connection) { return PeopleTable(connection).tokens({}); }).empty());
}

}  // namespace
}  // namespace divvy::store
