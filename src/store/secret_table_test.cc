#include "store/secret_table.h"

#include "store/people_table.h"
#include "store/testing.h"

namespace divvy::store {
namespace {

class SecretTableTest : public TableTest {
 protected:
  void put(const std::string& user, const std::string& name, const std::string& sealed,
           int second) const {
    commit([&](Connection& connection) {
      return SecretTable(connection).put(user, {name, at_second(second)}, sealed);
    });
  }
  [[nodiscard]] std::vector<SecretRecord> list(const std::string& user) const {
    return read([&](Connection& connection) { return SecretTable(connection).list(user); });
  }
  [[nodiscard]] std::optional<std::string> sealed(const std::string& user,
                                                  const std::string& name) const {
    return read([&](Connection& connection) { return SecretTable(connection).sealed(user, name); });
  }
};

TEST_F(SecretTableTest, NamesBelongToAUserEach) {
  put("ada", "HF_TOKEN", "a1", 1);
  put("bob", "HF_TOKEN", "b1", 2);
  put("ada", "A", "a2", 3);
  EXPECT_EQ(list("ada"),
            (std::vector<SecretRecord>{{"A", at_second(3)}, {"HF_TOKEN", at_second(1)}}));
  EXPECT_EQ(sealed("ada", "HF_TOKEN"), "a1");
  EXPECT_EQ(sealed("bob", "HF_TOKEN"), "b1");
  EXPECT_EQ(sealed("bob", "A"), std::nullopt);
}

TEST_F(SecretTableTest, ANewValueReplacesTheOldOne) {
  put("ada", "HF_TOKEN", "a1", 1);
  put("ada", "HF_TOKEN", "a2", 2);
  EXPECT_EQ(list("ada"), (std::vector<SecretRecord>{{"HF_TOKEN", at_second(2)}}));
  EXPECT_EQ(sealed("ada", "HF_TOKEN"), "a2");
}

TEST_F(SecretTableTest, RemovesOnceAndOnlyThatUsers) {
  put("ada", "HF_TOKEN", "a1", 1);
  put("bob", "HF_TOKEN", "b1", 1);
  const auto remove = [this] {
    bool removed = false;
    commit([&](Connection& connection) -> Status {
      DIVVY_TRY(done, SecretTable(connection).remove("ada", "HF_TOKEN"));
      removed = done;
      return {};
    });
    return removed;
  };
  EXPECT_TRUE(remove());
  EXPECT_FALSE(remove());
  EXPECT_EQ(sealed("bob", "HF_TOKEN"), "b1");
}

TEST_F(SecretTableTest, GoWithTheirUser) {
  commit([](Connection& connection) {
    return PeopleTable(connection)
        .add({.name = "ada",
              .role = model::Role::kUser,
              .uid = {},
              .created = at_second(1),
              .disabled = false});
  });
  put("ada", "HF_TOKEN", "a1", 1);
  put("bob", "HF_TOKEN", "b1", 1);
  commit([](Connection& connection) { return PeopleTable(connection).remove("ada"); });
  EXPECT_TRUE(list("ada").empty());
  EXPECT_EQ(list("bob").size(), 1U);
}

}  // namespace
}  // namespace divvy::store
