// Every write that SQLite does to the disk, in turn, fails or is the last thing that the process
// does: what was acknowledged is there afterwards, and what was refused is not.
#include <signal.h>
#include <sqlite3.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <set>

#include "base/log.h"
#include "store/job_table.h"
#include "store/submission.h"
#include "store/testing.h"

namespace divvy::store {
namespace {

// What happens to the write with that number; numbers count from 1 since reset().
struct Fault {
  enum class Kind { kNone, kFull, kError, kKill };
  Kind kind = Kind::kNone;
  long at = 0;
};
Fault fault;
std::atomic<long> writes{0};

using Pwrite = ssize_t (*)(int, const void*, size_t, off_t);
Pwrite real_pwrite = nullptr;

ssize_t faulty_pwrite(int fd, const void* bytes, size_t size, off_t offset) {
  if (++writes != fault.at || fault.kind == Fault::Kind::kNone) {
    return real_pwrite(fd, bytes, size, offset);
  }
  if (fault.kind == Fault::Kind::kKill) {
    (void)!real_pwrite(fd, bytes, size / 2, offset);
    ::kill(::getpid(), SIGKILL);
  }
  errno = fault.kind == Fault::Kind::kFull ? ENOSPC : EIO;
  return -1;
}

// Puts itself between SQLite and the disk for as long as it lives.
class FaultyDisk {
 public:
  explicit FaultyDisk(Fault which) : vfs_(::sqlite3_vfs_find(nullptr)) {
    fault = which;
    writes = 0;
    for (const char* name : {"pwrite64", "pwrite"}) {
      if (auto* call = vfs_->xGetSystemCall(vfs_, name); call != nullptr) {
        real_pwrite = reinterpret_cast<Pwrite>(call);
        ::sqlite3_syscall_ptr mine = reinterpret_cast<::sqlite3_syscall_ptr>(&faulty_pwrite);
        EXPECT_EQ(vfs_->xSetSystemCall(vfs_, name, mine), SQLITE_OK);
      }
    }
  }
  ~FaultyDisk() { vfs_->xSetSystemCall(vfs_, nullptr, nullptr); }
  FaultyDisk(const FaultyDisk&) = delete;
  FaultyDisk& operator=(const FaultyDisk&) = delete;

 private:
  ::sqlite3_vfs* vfs_;
};

class DiskFaults : public StoreTest {
 protected:
  static constexpr int kSubmits = 3;

  // Makes a database and submits to it. What was acknowledged goes to `told`.
  template <typename Tell>
  static void work(const std::filesystem::path& file, const Tell& tell) {
    auto database = Database::open(file);
    if (!database) return;
    for (int i = 0; i < kSubmits; ++i) {
      std::optional<model::Job> job;
      const Status done = (*database)->commit([&](Connection& connection) -> Status {
        DIVVY_TRY(submitted, submit(connection, test_submission()));
        job = submitted.jobs.front();
        return {};
      });
      if (done) tell(job->id.value());
    }
  }

  // The jobs that are there; each of them is whole.
  static std::multiset<std::uint64_t> jobs_in(const std::filesystem::path& file) {
    std::multiset<std::uint64_t> found;
    auto database = Database::open(file);
    EXPECT_TRUE(database.has_value()) << database.error().message;
    if (!database) return found;
    EXPECT_TRUE((*database)->check());
    const auto jobs =
        (*database)->read([](Connection& connection) { return JobTable(connection).unfinished(); });
    EXPECT_TRUE(jobs.has_value()) << jobs.error().message;
    for (const model::Job& job : *jobs) {
      EXPECT_EQ(job, test_job(job.id.value()));
      found.insert(job.id.value());
    }
    return found;
  }

  void remove_database() const {
    for (const auto& entry : std::filesystem::directory_iterator(folder_)) {
      std::filesystem::remove(entry.path());
    }
  }
};

TEST_F(DiskFaults, AFailedWriteRefusesItsChangeAlone) {
  const LogCapture quiet;
  for (long at = 1;; ++at) {
    // Every other one, so that both are tried where it hurts.
    const Fault::Kind kind = at % 2 == 0 ? Fault::Kind::kFull : Fault::Kind::kError;
    SCOPED_TRACE(fmt::format("kind {}, write {}", static_cast<int>(kind), at));
    std::multiset<std::uint64_t> told;
    bool reached = false;
    {
      const FaultyDisk disk({kind, at});
      work(file(), [&told](std::uint64_t job) { told.insert(job); });
      reached = writes >= at;
    }
    EXPECT_EQ(jobs_in(file()), told);
    remove_database();
    if (reached && !HasFailure()) continue;
    EXPECT_EQ(told.size(), static_cast<std::size_t>(kSubmits));
    break;
  }
}

TEST_F(DiskFaults, KilledInTheMiddleOfEveryWriteLosesNothingThatWasAcknowledged) {
  for (long at = 1;; ++at) {
    SCOPED_TRACE(fmt::format("write {}", at));
    int ends[2];
    ASSERT_EQ(::pipe(ends), 0);
    const pid_t child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      ::close(ends[0]);
      const FaultyDisk disk({Fault::Kind::kKill, at});
      work(file(), [&ends](std::uint64_t job) {
        if (::write(ends[1], &job, sizeof job) != sizeof job) ::_exit(1);
      });
      ::_exit(0);
    }
    ::close(ends[1]);
    std::set<std::uint64_t> told;
    for (std::uint64_t job = 0; ::read(ends[0], &job, sizeof job) == sizeof job;) told.insert(job);
    ::close(ends[0]);
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    const auto found = jobs_in(file());
    for (const std::uint64_t job : told) EXPECT_EQ(found.count(job), 1U) << job;
    // One that was on its way may have made it.
    EXPECT_LE(found.size(), told.size() + 1);
    remove_database();
    if (!WIFSIGNALED(status) || HasFailure()) {
      EXPECT_EQ(told.size(), static_cast<std::size_t>(kSubmits));
      break;
    }
  }
}

}  // namespace
}  // namespace divvy::store
