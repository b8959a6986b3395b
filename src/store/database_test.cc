#include "store/database.h"

#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <atomic>
#include <fstream>
#include <thread>

#include "base/log.h"
#include "store/job_table.h"
#include "store/submission.h"
#include "store/testing.h"

namespace divvy::store {
namespace {

namespace fs = std::filesystem;

class DatabaseTest : public TableTest {
 protected:
  void submit_one() const {
    commit([](Connection& connection) -> Status {
      DIVVY_RETURN_IF_ERROR(submit(connection, test_submission()));
      return {};
    });
  }
  static std::size_t jobs_in(Database& database) {
    return database.read([](Connection& connection) { return JobTable(connection).unfinished(); })
        .value()
        .size();
  }
  static mode_t mode_of(const fs::path& path) {
    struct stat status{};
    EXPECT_EQ(::stat(path.c_str(), &status), 0) << path;
    return status.st_mode & 0777U;
  }
};

TEST_F(DatabaseTest, FilesAreReadableByTheirOwnerOnly) {
  submit_one();
  for (const char* end : {"", "-wal", "-shm"}) {
    EXPECT_EQ(mode_of(file().string() + end), 0600U) << end;
  }
}

TEST_F(DatabaseTest, TightensThePermissionsOfAnExistingFile) {
  database_.reset();
  ASSERT_EQ(::chmod(file().c_str(), 0644), 0);
  const LogCapture log;
  ASSERT_TRUE(Database::open(file()).has_value());
  EXPECT_EQ(mode_of(file()), 0600U);
  EXPECT_TRUE(log.contains("open to others"));
}

TEST_F(DatabaseTest, SaysWhoMustOwnTheFolder) {
  // Nobody may make a file there, not even root.
  const auto refused = Database::open("/sys/divvy.db");
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().code, ErrorCode::kPermissionDenied) << refused.error().message;
  EXPECT_NE(refused.error().message.find("/sys/divvy.db"), std::string::npos);
  EXPECT_NE(refused.error().message.find("--state-dir"), std::string::npos);
}

TEST_F(DatabaseTest, DoesNotFollowASymlink) {
  fs::create_symlink(folder_ / "elsewhere", folder_ / "link.db");
  EXPECT_FALSE(Database::open(folder_ / "link.db").has_value());
  EXPECT_FALSE(fs::exists(folder_ / "elsewhere"));
}

TEST_F(DatabaseTest, RefusesAFileThatIsNoDatabase) {
  const fs::path other = folder_ / "other.db";
  std::ofstream(other) << std::string(10'000, 'x');
  const auto refused = Database::open(other);
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().code, ErrorCode::kDataLoss);
  EXPECT_NE(refused.error().message.find("restore a backup"), std::string::npos);
  EXPECT_EQ(fs::file_size(other), 10'000U);
}

TEST_F(DatabaseTest, DetectsADamagedPageOnOpen) {
  for (int i = 0; i < 100; ++i) submit_one();
  database_.reset();  // Everything is in the one file now
  {
    std::fstream bytes(file(), std::ios::in | std::ios::out | std::ios::binary);
    bytes.seekp(4096L * 3);
    bytes << std::string(4096, '\x7f');
  }
  const auto refused = Database::open(file());
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().code, ErrorCode::kDataLoss) << refused.error().message;
}

// A file size limit, for as long as it lives.
class SmallDisk {
 public:
  explicit SmallDisk(rlim_t bytes) {
    ::signal(SIGXFSZ, SIG_IGN);
    ::getrlimit(RLIMIT_FSIZE, &before_);
    const rlimit limit{bytes, before_.rlim_max};
    ::setrlimit(RLIMIT_FSIZE, &limit);
  }
  ~SmallDisk() {
    ::setrlimit(RLIMIT_FSIZE, &before_);
    ::signal(SIGXFSZ, SIG_DFL);
  }
  SmallDisk(const SmallDisk&) = delete;
  SmallDisk& operator=(const SmallDisk&) = delete;

 private:
  rlimit before_{};
};

TEST_F(DatabaseTest, AFullDiskRefusesWritesAndLosesNothing) {
  for (int i = 0; i < 3; ++i) submit_one();
  {
    const SmallDisk small(fs::file_size(file().string() + "-wal"));
    const Status refused = database_->commit(
        [](Connection& connection) { return JobTable(connection).insert(test_job(1000)); });
    ASSERT_FALSE(refused);
    EXPECT_NE(refused.error().message.find("full"), std::string::npos) << refused.error().message;
    EXPECT_EQ(jobs_in(*database_), 3U);
  }
  submit_one();
  EXPECT_EQ(jobs_in(*database_), 4U) << "when there is space again it goes on by itself";
  database_.reset();
  SetUp();
  EXPECT_EQ(jobs_in(*database_), 4U);
}

TEST_F(DatabaseTest, ABackupIsConsistentWhileOthersWrite) {
  std::atomic<std::uint64_t> acknowledged{0};
  std::jthread writing([&](const std::stop_token& stop) {
    while (!stop.stop_requested()) {
      submit_one();
      ++acknowledged;
    }
  });
  for (int round = 0; round < 5; ++round) {
    const std::uint64_t before = acknowledged;
    const fs::path copy = folder_ / "copy.db";
    const Status done = database_->backup(copy);
    ASSERT_TRUE(done) << done.error().message;
    EXPECT_EQ(mode_of(copy), 0600U);
    auto opened = Database::open(copy);
    ASSERT_TRUE(opened.has_value()) << opened.error().message;
    const auto jobs =
        (*opened)
            ->read([](Connection& connection) { return JobTable(connection).unfinished(); })
            .value();
    EXPECT_GE(jobs.size(), before);
    for (std::size_t i = 0; i < jobs.size(); ++i) EXPECT_EQ(jobs[i].id.value(), i + 1);
  }
  EXPECT_FALSE(fs::exists(folder_ / "copy.db.partial"));
}

TEST_F(DatabaseTest, AFailedBackupKeepsThePreviousOne) {
  submit_one();
  const fs::path copy = folder_ / "copy.db";
  ASSERT_TRUE(database_->backup(copy));
  submit_one();
  {
    const SmallDisk small(20'000);
    EXPECT_FALSE(database_->backup(copy));
  }
  EXPECT_EQ(jobs_in(*Database::open(copy).value()), 1U);
}

TEST_F(DatabaseTest, RestoresABackupWhileItRuns) {
  submit_one();
  const fs::path copy = folder_ / "copy.db";
  ASSERT_TRUE(database_->backup(copy));
  for (int i = 0; i < 20; ++i) submit_one();
  EXPECT_EQ(jobs_in(*database_), 21U);
  const Status done = database_->restore(copy);
  ASSERT_TRUE(done) << done.error().message;
  EXPECT_EQ(jobs_in(*database_), 1U);
  submit_one();
  EXPECT_EQ(jobs_in(*database_), 2U);
  ASSERT_TRUE(database_->check());
  database_.reset();
  SetUp();
  EXPECT_EQ(jobs_in(*database_), 2U);
  EXPECT_EQ(jobs_in(*Database::open(copy).value()), 1U) << "the backup is as it was";
}

TEST_F(DatabaseTest, RefusesToRestoreAFileThatIsNoBackup) {
  submit_one();
  std::ofstream(folder_ / "text") << "hello, this is no database at all";
  std::ofstream(folder_ / "empty").flush();
  EXPECT_EQ(database_->restore(folder_ / "text").error().code, ErrorCode::kDataLoss);
  EXPECT_EQ(database_->restore(folder_ / "empty").error().code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(database_->restore(folder_ / "nothing").error().code, ErrorCode::kNotFound);
  EXPECT_EQ(database_->restore(file()).error().code, ErrorCode::kFailedPrecondition)
      << "a database in use is no backup";
  EXPECT_EQ(jobs_in(*database_), 1U);
}

}  // namespace
}  // namespace divvy::store
