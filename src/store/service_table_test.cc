#include "store/service_table.h"

#include <gtest/gtest.h>

#include "store/testing.h"

namespace divvy::store {
namespace {

const ServiceRow kModel{"model", "ada", 8000, 1, "{}"};

class ServiceTableTest : public TableTest {
 protected:
  void insert(const ServiceRow& row) {
    commit([&](Connection& connection) { return ServiceTable(connection).insert(row); });
  }
  bool update(const ServiceRow& row) {
    bool done = false;
    commit([&](Connection& connection) -> Status {
      DIVVY_TRY(changed, ServiceTable(connection).update(row));
      done = changed;
      return {};
    });
    return done;
  }
};

TEST_F(ServiceTableTest, AChangeOfARevisionThatIsGoneChangesNothing) {
  insert(kModel);
  ServiceRow first = kModel;
  first.document = "{\"first\":1}";
  EXPECT_TRUE(update(first));
  EXPECT_FALSE(update(kModel)) << "it had seen what was there before";
  first.revision = 2;
  EXPECT_EQ(read([](Connection& connection) { return ServiceTable(connection).find("model"); }),
            first);
}

TEST_F(ServiceTableTest, ANameAndAPortAreGivenOnce) {
  insert(kModel);
  for (const ServiceRow& other :
       {ServiceRow{"model", "bob", 8001, 1, "{}"}, ServiceRow{"other", "bob", 8000, 1, "{}"}}) {
    const Status refused = database_->commit(
        [&](Connection& connection) { return ServiceTable(connection).insert(other); });
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code, ErrorCode::kAlreadyExists);
  }
}

TEST_F(ServiceTableTest, WhatIsRemovedIsGone) {
  insert(kModel);
  insert({"a", "bob", 8001, 1, "{}"});
  commit([](Connection& connection) { return ServiceTable(connection).remove("model"); });
  const auto left = read([](Connection& connection) { return ServiceTable(connection).list(); });
  ASSERT_EQ(left.size(), 1U);
  EXPECT_EQ(left[0].name, "a");
}

}  // namespace
}  // namespace divvy::store
