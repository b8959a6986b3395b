#include "store/subject_table.h"

#include <gtest/gtest.h>

#include "store/people_table.h"
#include "store/testing.h"

namespace divvy::store {
namespace {

class SubjectTableTest : public TableTest {
 protected:
  void add_person(const std::string& name) const {
    commit([&](Connection& connection) {
      return PeopleTable(connection)
          .add({.name = name,
                .role = model::Role::kUser,
                .uid = std::nullopt,
                .created = {},
                .disabled = false});
    });
  }
  [[nodiscard]] Status add(const std::string& issuer, const std::string& subject,
                           const std::string& user) const {
    return database_->commit([&](Connection& connection) {
      return SubjectTable(connection).add(issuer, subject, user, at_second(1));
    });
  }
  [[nodiscard]] std::optional<std::string> find(const std::string& issuer,
                                                const std::string& subject) const {
    return read(
        [&](Connection& connection) { return SubjectTable(connection).find(issuer, subject); });
  }
};

TEST_F(SubjectTableTest, AnAccountIsOneUserAndAUserOneAccountOfAnIssuer) {
  add_person("ada");
  add_person("bob");
  ASSERT_TRUE(add("https://id", "1", "ada"));
  EXPECT_EQ(find("https://id", "1"), "ada");
  EXPECT_EQ(find("https://id", "2"), std::nullopt);
  EXPECT_EQ(find("https://other", "1"), std::nullopt);
  EXPECT_EQ(add("https://id", "1", "bob").error().code, ErrorCode::kAlreadyExists);
  EXPECT_EQ(add("https://id", "2", "ada").error().code, ErrorCode::kAlreadyExists);
  EXPECT_TRUE(add("https://other", "1", "ada"));
  EXPECT_EQ(read([](Connection& connection) {
              return SubjectTable(connection).subject_of("https://other", "ada");
            }),
            "1");
}

TEST_F(SubjectTableTest, NobodyIsBoundToAUserThatIsRemoved) {
  add_person("ada");
  ASSERT_TRUE(add("https://id", "1", "ada"));
  commit([](Connection& connection) { return PeopleTable(connection).remove("ada"); });
  EXPECT_EQ(find("https://id", "1"), std::nullopt);
}

TEST_F(SubjectTableTest, OneOfAnIssuerIsForgotten) {
  add_person("ada");
  ASSERT_TRUE(add(std::string(kThisMachine), "1003", "ada"));
  ASSERT_TRUE(add("https://id", "1", "ada"));
  commit(
      [](Connection& connection) { return SubjectTable(connection).remove(kThisMachine, "ada"); });
  EXPECT_EQ(find(std::string(kThisMachine), "1003"), std::nullopt);
  EXPECT_EQ(find("https://id", "1"), "ada");
}

}  // namespace
}  // namespace divvy::store
