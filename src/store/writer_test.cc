#include "store/writer.h"

#include <future>
#include <thread>

#include "base/log.h"
#include "store/job_table.h"
#include "store/settings_table.h"
#include "store/testing.h"

namespace divvy::store {
namespace {

class WriterTest : public TableTest {
 protected:
  static Change put(const std::string& name) {
    return [name](Connection& connection) {
      return SettingsTable(connection).put(SettingsKind::kQueue, {name, "{}"});
    };
  }
  [[nodiscard]] std::size_t rows() const {
    return read([](Connection& connection) {
             return SettingsTable(connection).list(SettingsKind::kQueue);
           })
        .size();
  }

  void await_waiting(std::size_t count) const {
    while (database_->counts().waiting < count) std::this_thread::yield();
  }

  // Holds the writer inside a change, so that what comes meanwhile goes together afterwards.
  class Hold {
   public:
    explicit Hold(Database& database)
        : thread_([this, &database] {
            EXPECT_TRUE(database.commit([this](Connection&) {
              inside_.set_value();
              released_.get_future().wait();
              return Status{};
            }));
          }) {
      inside_.get_future().wait();
    }
    ~Hold() {
      released_.set_value();
      thread_.join();
    }

   private:
    std::promise<void> inside_;
    std::promise<void> released_;
    std::thread thread_;
  };
};

TEST_F(WriterTest, ManyChangesShareOneSync) {
  std::vector<std::future<Status>> callers;
  {
    const Hold hold(*database_);
    for (int i = 0; i < 50; ++i) {
      callers.push_back(std::async(
          std::launch::async, [&, i] { return database_->commit(put(fmt::format("q{}", i))); }));
    }
    await_waiting(50);
  }
  for (auto& caller : callers) EXPECT_TRUE(caller.get());
  EXPECT_EQ(rows(), 50U);
  EXPECT_EQ(database_->counts().changes, 51U);
  EXPECT_EQ(database_->counts().syncs, 2U);
}

TEST_F(WriterTest, AFailingChangeFailsAlone) {
  std::future<Status> good;
  std::future<Status> bad;
  std::future<Status> thrown;
  {
    const Hold hold(*database_);
    good = std::async(std::launch::async, [&] { return database_->commit(put("good")); });
    bad = std::async(std::launch::async, [&] {
      return database_->commit([](Connection& connection) -> Status {
        DIVVY_RETURN_IF_ERROR(put("half")(connection));
        return err(ErrorCode::kInvalidArgument, "no");
      });
    });
    thrown = std::async(std::launch::async, [&] {
      return database_->commit([](Connection& connection) -> Status {
        DIVVY_RETURN_IF_ERROR(put("half")(connection));
        throw std::runtime_error("thrown");
      });
    });
    await_waiting(3);
  }
  EXPECT_TRUE(good.get());
  EXPECT_EQ(bad.get().error().message, "no");
  EXPECT_NE(thrown.get().error().message.find("thrown"), std::string::npos);
  EXPECT_EQ(rows(), 1U);
}

TEST_F(WriterTest, AChangeThatEndsTheTransactionFailsItsWholeBatch) {
  const Status done =
      database_->commit([](Connection& connection) { return connection.execute("ROLLBACK"); });
  EXPECT_FALSE(done);
  EXPECT_TRUE(database_->commit(put("after")));
  EXPECT_EQ(rows(), 1U);
}

TEST_F(WriterTest, CommitsChangesThatNobodyWaitsFor) {
  database_->later(put("later"));
  commit(put("now"));  // Comes behind it
  EXPECT_EQ(rows(), 2U);
  database_->later(put("last"));
  database_.reset();
  SetUp();
  EXPECT_EQ(rows(), 3U) << "the end of the database commits what was handed in";
}

TEST_F(WriterTest, AChangeThatNobodyWaitsForSaysInTheLogThatItFailed) {
  const LogCapture log;
  database_->later([](Connection&) -> Status { return err(ErrorCode::kInternal, "oh dear"); });
  commit(put("now"));
  EXPECT_TRUE(log.contains("oh dear"));
}

TEST_F(WriterTest, ReadersSeeWhatWasCommittedAndNothingElse) {
  std::promise<void> written;
  std::promise<void> looked;
  auto change = std::async(std::launch::async, [&] {
    return database_->commit([&](Connection& connection) -> Status {
      DIVVY_RETURN_IF_ERROR(put("new")(connection));
      written.set_value();
      looked.get_future().wait();
      return {};
    });
  });
  written.get_future().wait();
  EXPECT_EQ(rows(), 0U);
  looked.set_value();
  EXPECT_TRUE(change.get());
  EXPECT_EQ(rows(), 1U);
}

TEST_F(WriterTest, ReadersHaveSnapshotIsolation) {
  commit(put("one"));
  const auto counts =
      database_->read([&](Connection& connection) -> Result<std::vector<std::size_t>> {
        SettingsTable table(connection);
        DIVVY_TRY(before, table.list(SettingsKind::kQueue));
        EXPECT_TRUE(database_->commit(put("two")));
        DIVVY_TRY(after, table.list(SettingsKind::kQueue));
        return std::vector{before.size(), after.size()};
      });
  EXPECT_EQ(counts.value(), (std::vector<std::size_t>{1, 1}));
  EXPECT_EQ(rows(), 2U);
}

}  // namespace
}  // namespace divvy::store
