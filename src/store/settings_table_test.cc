#include "store/settings_table.h"

#include <gtest/gtest.h>

#include "store/testing.h"

namespace divvy::store {
namespace {

class SettingsTableTest : public TableTest {
 protected:
  [[nodiscard]] std::vector<SettingsRow> queues() const {
    return read([](Connection& connection) {
      return SettingsTable(connection).list(SettingsKind::kQueue);
    });
  }
};

TEST_F(SettingsTableTest, TheLastThatWasPutIsThere) {
  commit([](Connection& connection) -> Status {
    SettingsTable table(connection);
    DIVVY_RETURN_IF_ERROR(table.put(SettingsKind::kQueue, {"research", "{\"weight\":1}"}));
    DIVVY_RETURN_IF_ERROR(table.put(SettingsKind::kQueue, {"default", "{}"}));
    DIVVY_RETURN_IF_ERROR(table.put(SettingsKind::kUser, {"research", "{\"weight\":9}"}));
    return table.put(SettingsKind::kQueue, {"research", "{\"weight\":2}"});
  });
  EXPECT_EQ(queues(),
            (std::vector<SettingsRow>{{"default", "{}"}, {"research", "{\"weight\":2}"}}));
  EXPECT_EQ(read([](Connection& connection) {
              return SettingsTable(connection).find(SettingsKind::kUser, "research");
            }),
            "{\"weight\":9}");
}

TEST_F(SettingsTableTest, WhatIsRemovedIsGone) {
  commit([](Connection& connection) {
    return SettingsTable(connection).put(SettingsKind::kQueue, {"research", "{}"});
  });
  const Change remove = [](Connection& connection) {
    return SettingsTable(connection).remove(SettingsKind::kQueue, "research");
  };
  commit(remove);
  EXPECT_TRUE(queues().empty());
  EXPECT_EQ(database_->commit(remove).error().code, ErrorCode::kNotFound);
}

}  // namespace
}  // namespace divvy::store
