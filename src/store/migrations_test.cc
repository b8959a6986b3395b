#include "store/migrations.h"

#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

#include "store/audit_table.h"
#include "store/job_table.h"
#include "store/notification_table.h"
#include "store/people_table.h"
#include "store/secret_table.h"
#include "store/service_table.h"
#include "store/settings_table.h"
#include "store/subject_table.h"
#include "store/testing.h"
#include "store/usage_table.h"

namespace divvy::store {
namespace {

std::filesystem::path fixture(int schema) {
  return std::filesystem::path(DIVVY_STORE_FIXTURES) / fmt::format("schema_{}.sql", schema);
}

std::string text_of(const std::filesystem::path& file) {
  std::ifstream stream(file);
  EXPECT_TRUE(stream.good()) << file << " is missing: a new schema comes with a database of its "
                             << "own, as docs/store.md says";
  std::ostringstream text;
  text << stream.rdbuf();
  return text.str();
}

// Tables and indexes as SQLite describes them.
Result<std::string> describe_schema(Connection& connection) {
  DIVVY_TRY(query, connection.prepare("SELECT sql FROM sqlite_schema WHERE sql IS NOT NULL AND "
                                      "name NOT LIKE 'sqlite_%' ORDER BY type, name"));
  std::string text;
  for (;;) {
    DIVVY_TRY(row, query.step());
    if (!row) return text;
    text += query.text(0) + "\n";
  }
}

class Migrations : public StoreTest, public ::testing::WithParamInterface<int> {
 protected:
  // A file as a program of that schema left it.
  void make(const std::string& sql) const {
    std::ofstream(file()).close();
    auto connection = Connection::open(file(), Connection::Mode::kWrite);
    ASSERT_TRUE(connection.has_value()) << connection.error().message;
    const Status done = connection->execute(sql);
    ASSERT_TRUE(done) << done.error().message;
  }
};

TEST_P(Migrations, KeepEverythingOfAnEarlierSchema) {
  make(text_of(fixture(GetParam())));
  auto database = Database::open(file());
  ASSERT_TRUE(database.has_value()) << database.error().message;
  const bool kept_usage = GetParam() >= 2;
  const bool kept_use = GetParam() >= 3;
  const Status looked = (*database)->read([&](Connection& connection) -> Status {
    DIVVY_TRY(schema, check_schema(connection));
    EXPECT_EQ(schema, newest_schema());

    DIVVY_TRY(job, JobTable(connection).find(model::JobId(7)));
    EXPECT_TRUE(job.has_value());
    if (!job) return {};
    EXPECT_EQ(job->owner, "ada");
    EXPECT_EQ(job->state, model::JobState::kRunning);
    EXPECT_EQ(job->spec.command, (std::vector<std::string>{"python", "train.py"}));
    EXPECT_EQ(job->spec.request.share(), Share(300));
    EXPECT_EQ(job->task, (model::ArrayTask{.array = model::JobId(6), .index = 1, .at_once = 1}));
    EXPECT_EQ(job->history.size(), 3U);
    EXPECT_EQ(job->members.size(), 1U);
    EXPECT_EQ(job->members.at(0).slices.at(0).memory(), gib(10));
    // What was not counted then is not known now.
    DIVVY_TRY(before, JobTable(connection).find(model::JobId(6)));
    EXPECT_TRUE(before && before->members.at(0).end);
    if (!before) return {};
    EXPECT_EQ(before->members.at(0).end->use,
              kept_use ? (model::MemberUse{std::chrono::milliseconds(1500), mib(64), gib(1)})
                       : model::MemberUse());
    DIVVY_TRY(used, UsageTable(connection).report(UsageBy::kJob, {}));
    if (kept_usage) {
      EXPECT_EQ(used.at(0).held, 18'000U);
      EXPECT_EQ(used.at(0).cpu, kept_use ? 1'500U : 0U);
    }
    DIVVY_TRY(next, JobTable(connection).next_id());
    EXPECT_EQ(next, model::JobId(10)) << "jobs up to 9 have been";

    DIVVY_TRY(owner,
              PeopleTable(connection)
                  .owner_of("divvy_0123456789abcdef_"
                            "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff",
                            at_second(1)));
    EXPECT_EQ(owner.person.name, "ada");
    EXPECT_EQ(owner.person.role, model::Role::kAdmin);
    DIVVY_TRY(settings, SettingsTable(connection).find(SettingsKind::kQueue, "research"));
    EXPECT_EQ(settings, "{\"weight\":3}");
    if (GetParam() >= 5) {
      DIVVY_TRY(service, ServiceTable(connection).find("model"));
      EXPECT_EQ(service, (ServiceRow{"model", "ada", 8000, 3, "{\"name\":\"model\"}"}));
    }
    if (GetParam() >= 6) {
      DIVVY_TRY(audit, AuditTable(connection).list({}));
      EXPECT_EQ(audit, (std::vector<AuditRow>{{4, at_second(5), "ada", "uid 1000, pid 7", "",
                                               "submitJob", "/v1/jobs", 201, "/v1/jobs/6"}}));
    }
    if (GetParam() >= 7) {
      DIVVY_TRY(user, SubjectTable(connection).find("https://id.example", "a7"));
      EXPECT_EQ(user, "ada");
    }
    if (GetParam() >= 8) {
      DIVVY_TRY(secrets, SecretTable(connection).list("ada"));
      EXPECT_EQ(secrets, (std::vector<SecretRecord>{{"HF_TOKEN", at_second(6)}}));
      DIVVY_TRY(sealed, SecretTable(connection).sealed("ada", "HF_TOKEN"));
      EXPECT_EQ(sealed, "01ab");
    }
    if (GetParam() >= 9) {
      DIVVY_TRY(message, NotificationTable(connection).next("ada", at_second(7)));
      EXPECT_EQ(message, (NotificationRow{.job = model::JobId(6),
                                          .owner = "ada",
                                          .ended = at_second(3),
                                          .url = "https://hooks.example/divvy",
                                          .body = "{\"id\":6}",
                                          .tries = 2,
                                          .due = at_second(7)}));
    }
    return {};
  });
  EXPECT_TRUE(looked) << looked.error().message;
}

TEST_P(Migrations, LeadToTheSchemaOfANewDatabase) {
  make(text_of(fixture(GetParam())));
  const auto fresh = Database::open(folder_ / "fresh.db").value();
  const auto migrated = Database::open(file()).value();
  EXPECT_EQ(migrated->read(describe_schema).value(), fresh->read(describe_schema).value());
}

INSTANTIATE_TEST_SUITE_P(FromEverySchema, Migrations, ::testing::Range(1, newest_schema() + 1));

class Schema : public Migrations {};

TEST_F(Schema, RefusesADatabaseOfANewerVersion) {
  make(text_of(fixture(newest_schema())) +
       fmt::format("PRAGMA user_version = {};", newest_schema() + 1));
  const auto refused = Database::open(file());
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().code, ErrorCode::kFailedPrecondition);
  EXPECT_NE(refused.error().message.find("newer Divvy"), std::string::npos);
  EXPECT_EQ(refused.error().message.find('\n'), std::string::npos);
}

TEST_F(Schema, RefusesADatabaseOfAnotherApplication) {
  make("CREATE TABLE theirs (x);");
  EXPECT_EQ(Database::open(file()).error().code, ErrorCode::kDataLoss);
}

TEST_F(Schema, AFailedMigrationRollsBack) {
  make(text_of(fixture(1)) + "CREATE TABLE events (x);");  // In the way of step 2
  EXPECT_FALSE(Database::open(file()).has_value());
  auto connection = Connection::open(file(), Connection::Mode::kWrite).value();
  EXPECT_EQ(check_schema(connection).value(), 1);
  EXPECT_EQ(connection.number("SELECT count(*) FROM sqlite_schema WHERE name = 'usage'").value(),
            0);
}

TEST_F(Schema, TheLastFixtureIsThatOfThisProgram) {
  make(text_of(fixture(newest_schema())));
  auto connection = Connection::open(file(), Connection::Mode::kWrite).value();
  EXPECT_EQ(check_schema(connection).value(), newest_schema());
  EXPECT_FALSE(std::filesystem::exists(fixture(newest_schema() + 1)));
}

}  // namespace
}  // namespace divvy::store
