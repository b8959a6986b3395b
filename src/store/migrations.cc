#include "store/migrations.h"

#include <array>

#include "base/log.h"

namespace divvy::store {
namespace {

// "DVVY": what file(1) and we know a database of Divvy by.
constexpr std::int64_t kApplicationId = 0x44565659;

// Times are nanoseconds since 1970, shares thousandths of a GPU, memory bytes.

// 1: jobs and people.
constexpr const char* kJobsAndPeople = R"(
CREATE TABLE jobs (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  owner TEXT NOT NULL,
  queue TEXT NOT NULL,
  name TEXT NOT NULL,
  submitted INTEGER NOT NULL,
  state TEXT NOT NULL,
  stopping TEXT,
  attempt INTEGER NOT NULL,
  failures INTEGER NOT NULL,
  not_before INTEGER,
  started INTEGER,
  ended INTEGER,
  array_job INTEGER,
  array_index INTEGER,
  array_at_once INTEGER,
  spec TEXT NOT NULL
) STRICT;
CREATE INDEX jobs_by_state ON jobs (state, id);
CREATE INDEX jobs_by_owner ON jobs (owner, id);
CREATE INDEX jobs_by_queue ON jobs (queue, id);
CREATE INDEX jobs_by_name ON jobs (name, id);
CREATE INDEX jobs_by_array ON jobs (array_job, id) WHERE array_job IS NOT NULL;
CREATE TABLE job_steps (
  job INTEGER NOT NULL REFERENCES jobs (id) ON DELETE CASCADE,
  number INTEGER NOT NULL,
  at INTEGER NOT NULL,
  state TEXT NOT NULL,
  reason TEXT NOT NULL,
  PRIMARY KEY (job, number)
) STRICT, WITHOUT ROWID;
CREATE TABLE job_members (
  job INTEGER NOT NULL REFERENCES jobs (id) ON DELETE CASCADE,
  attempt INTEGER NOT NULL,
  rank INTEGER NOT NULL,
  node TEXT NOT NULL,
  slices TEXT NOT NULL,
  ended INTEGER,
  exit_code INTEGER,
  signal INTEGER,
  reason TEXT,
  PRIMARY KEY (job, attempt, rank)
) STRICT, WITHOUT ROWID;
CREATE TABLE users (
  name TEXT PRIMARY KEY,
  role TEXT NOT NULL,
  uid INTEGER UNIQUE,
  created INTEGER NOT NULL,
  disabled INTEGER NOT NULL
) STRICT;
CREATE TABLE tokens (
  id TEXT PRIMARY KEY,
  user TEXT NOT NULL REFERENCES users (name) ON DELETE CASCADE,
  label TEXT NOT NULL,
  hash TEXT NOT NULL,
  created INTEGER NOT NULL,
  expires INTEGER,
  last_used INTEGER,
  revoked INTEGER
) STRICT;
CREATE INDEX tokens_by_user ON tokens (user);
CREATE TABLE settings (
  kind TEXT NOT NULL,
  name TEXT NOT NULL,
  document TEXT NOT NULL,
  PRIMARY KEY (kind, name)
) STRICT, WITHOUT ROWID;
)";

// 2: what was used, what happened, and what was asked for already.
constexpr const char* kUsageAndEvents = R"(
CREATE TABLE usage (
  hour INTEGER NOT NULL,
  job INTEGER NOT NULL,
  attempt INTEGER NOT NULL,
  owner TEXT NOT NULL,
  queue TEXT NOT NULL,
  held INTEGER NOT NULL,
  used INTEGER NOT NULL,
  memory INTEGER NOT NULL,
  PRIMARY KEY (hour, job, attempt)
) STRICT, WITHOUT ROWID;
CREATE INDEX usage_by_job ON usage (job);
CREATE TABLE events (
  number INTEGER PRIMARY KEY AUTOINCREMENT,
  at INTEGER NOT NULL,
  kind TEXT NOT NULL,
  job INTEGER,
  user TEXT NOT NULL,
  object TEXT NOT NULL,
  state TEXT NOT NULL,
  reason TEXT NOT NULL
) STRICT;
CREATE INDEX events_by_job ON events (job, number) WHERE job IS NOT NULL;
CREATE TABLE submissions (
  user TEXT NOT NULL,
  key TEXT NOT NULL,
  fingerprint TEXT NOT NULL,
  first_job INTEGER NOT NULL,
  jobs INTEGER NOT NULL,
  at INTEGER NOT NULL,
  PRIMARY KEY (user, key)
) STRICT, WITHOUT ROWID;
CREATE INDEX submissions_by_time ON submissions (at);
)";

// 3: what members used, when their attempt began to run, and which jobs ended first.
constexpr const char* kAccounting = R"(
ALTER TABLE job_members ADD COLUMN started INTEGER;
ALTER TABLE job_members ADD COLUMN cpu INTEGER;
ALTER TABLE job_members ADD COLUMN ram_peak INTEGER;
ALTER TABLE job_members ADD COLUMN gpu_memory_peak INTEGER;
ALTER TABLE usage ADD COLUMN cpu INTEGER NOT NULL DEFAULT 0;
CREATE INDEX jobs_by_end ON jobs (ended, id) WHERE ended IS NOT NULL;
)";

// 4: what happens to the GPUs of machines is in the same stream.
constexpr const char* kMachineEvents = R"(
ALTER TABLE events ADD COLUMN node TEXT NOT NULL DEFAULT '';
ALTER TABLE events ADD COLUMN gpu INTEGER;
ALTER TABLE events ADD COLUMN tenant TEXT NOT NULL DEFAULT '';
)";

// 5: services, as documents of the room `serve`; schedules, of the room `control`.
constexpr const char* kServices = R"(
CREATE TABLE services (
  name TEXT PRIMARY KEY,
  owner TEXT NOT NULL,
  port INTEGER NOT NULL UNIQUE,
  revision INTEGER NOT NULL,
  document TEXT NOT NULL
) STRICT;
CREATE TABLE schedules (
  name TEXT PRIMARY KEY,
  owner TEXT NOT NULL,
  revision INTEGER NOT NULL,
  document TEXT NOT NULL
) STRICT;
)";

// 6: who asked for what. An entry is written once and gets its outcome once.
constexpr const char* kAudit = R"(
CREATE TABLE audit (
  number INTEGER PRIMARY KEY AUTOINCREMENT,
  at INTEGER NOT NULL,
  user TEXT NOT NULL,
  caller TEXT NOT NULL,
  token TEXT NOT NULL,
  action TEXT NOT NULL,
  object TEXT NOT NULL,
  status INTEGER,
  outcome TEXT NOT NULL
) STRICT;
CREATE INDEX audit_by_user ON audit (user, number);
CREATE INDEX audit_by_time ON audit (at);
CREATE TRIGGER audit_is_written_once BEFORE UPDATE ON audit WHEN old.status IS NOT NULL
BEGIN SELECT RAISE(ABORT, 'an entry of the audit log is never changed'); END;
)";

// 7: which account of a provider of OpenID Connect signs in as whom. The name that a provider gives
// may become somebody else's; the subject never does.
constexpr const char* kSubjects = R"(
CREATE TABLE subjects (
  issuer TEXT NOT NULL,
  subject TEXT NOT NULL,
  user TEXT NOT NULL REFERENCES users (name) ON DELETE CASCADE,
  at INTEGER NOT NULL,
  PRIMARY KEY (issuer, subject),
  UNIQUE (issuer, user)
) STRICT, WITHOUT ROWID;
CREATE INDEX subjects_by_user ON subjects (user);
)";

// 8: secrets of users, sealed with a key that is not in the database.
constexpr const char* kSecrets = R"(
CREATE TABLE secrets (
  user TEXT NOT NULL,
  name TEXT NOT NULL,
  changed INTEGER NOT NULL,
  sealed TEXT NOT NULL,
  PRIMARY KEY (user, name)
) STRICT, WITHOUT ROWID;
)";

// 9: messages about jobs that have ended, until they were delivered.
constexpr const char* kNotifications = R"(
CREATE TABLE notifications (
  job INTEGER PRIMARY KEY,
  owner TEXT NOT NULL,
  ended INTEGER NOT NULL,
  url TEXT NOT NULL,
  body TEXT NOT NULL,
  tries INTEGER NOT NULL,
  due INTEGER NOT NULL
) STRICT;
CREATE INDEX notifications_by_owner ON notifications (owner, due, job);
)";

// Released steps are never changed; a new one is added at the end, together with a file in
// fixtures/ that has the schema before it.
constexpr std::array kSteps{kJobsAndPeople, kUsageAndEvents, kAccounting, kMachineEvents, kServices,
                            kAudit,         kSubjects,       kSecrets,    kNotifications};

}  // namespace

int newest_schema() { return static_cast<int>(kSteps.size()); }

Result<int> check_schema(Connection& connection) {
  DIVVY_TRY(version, connection.number("PRAGMA user_version"));
  DIVVY_TRY(application, connection.number("PRAGMA application_id"));
  DIVVY_TRY(tables, connection.number("SELECT count(*) FROM sqlite_schema"));
  if (tables == 0 && version == 0 && application == 0) return 0;
  if (application != kApplicationId || version < 1) {
    return err(ErrorCode::kDataLoss,
               "{} is a database, but not one of Divvy; move it away or name another folder",
               connection.file().string());
  }
  if (version > newest_schema()) {
    return err(ErrorCode::kFailedPrecondition,
               "{} was written by a newer Divvy (schema {}, this program knows {}); install that "
               "version again, or restore a backup from before it",
               connection.file().string(), version, newest_schema());
  }
  return static_cast<int>(version);
}

Status migrate(Connection& connection, int newest) {
  DIVVY_TRY(version, check_schema(connection));
  for (int next = version + 1; next <= newest; ++next) {
    const Status done = connection.execute(
        fmt::format("BEGIN IMMEDIATE; PRAGMA application_id = {}; {} PRAGMA user_version = {}; "
                    "COMMIT;",
                    kApplicationId, kSteps[static_cast<std::size_t>(next - 1)], next));
    if (!done) {
      if (connection.in_transaction()) (void)connection.execute("ROLLBACK");
      return with_context(done, fmt::format("the database could not be brought from schema {} to "
                                            "{}",
                                            next - 1, next));
    }
    if (version > 0) log_info("database brought to a newer schema", {{"schema", next}});
  }
  return {};
}

}  // namespace divvy::store
