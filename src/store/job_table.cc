#include "store/job_table.h"

#include <algorithm>
#include <limits>

#include "model/job_document.h"
#include "store/job_row.h"

namespace divvy::store {
namespace {

using model::Job;
using model::JobId;
using model::JobState;

#define DIVVY_JOB_COLUMNS                                                                    \
  "id, owner, spec, submitted, array_job, array_index, state, stopping, attempt, failures, " \
  "not_before, started, ended, array_at_once"

#define DIVVY_UNFINISHED "'queued', 'starting', 'running', 'stopping', 'suspended'"

constexpr std::string_view kFind = "SELECT " DIVVY_JOB_COLUMNS " FROM jobs WHERE id = ?";

// Every state but the last three, so that the index on the state is used.
constexpr std::string_view kUnfinished =
    "SELECT " DIVVY_JOB_COLUMNS " FROM jobs WHERE state IN (" DIVVY_UNFINISHED ") ORDER BY id";

// What is in the database and cannot be understood was not written by us.
Error damaged(JobId id, const Error& why) {
  return {ErrorCode::kDataLoss,
          fmt::format("job {} cannot be read from the database: {}", id, why.message)};
}

std::int64_t signed_id(JobId id) { return static_cast<std::int64_t>(id.value()); }

// The first column of every row that is left.
Result<std::vector<JobId>> ids(Statement& query) {
  std::vector<JobId> result;
  for (;;) {
    DIVVY_TRY(row, query.step());
    if (!row) return result;
    result.emplace_back(static_cast<std::uint64_t>(query.integer(0)));
  }
}

// SQLite has 63 bits for a number; nobody has that much memory.
std::optional<std::int64_t> stored(const std::optional<Bytes>& bytes) {
  constexpr std::uint64_t kMost = std::numeric_limits<std::int64_t>::max();
  if (!bytes) return std::nullopt;
  return static_cast<std::int64_t>(std::min(bytes->count(), kMost));
}

std::optional<Bytes> bytes_in(const Statement& row, int column) {
  if (row.is_null(column)) return std::nullopt;
  return Bytes(static_cast<std::uint64_t>(row.integer(column)));
}

// Queues below a queue have its path and a slash in front; '0' is what follows '/'.
struct QueueRange {
  std::string first;
  std::string end;
};
QueueRange below(const std::string& queue) { return {queue + "/", queue + "0"}; }

}  // namespace

Result<JobId> JobTable::next_id() {
  DIVVY_TRY(last, connection_.number("SELECT seq FROM sqlite_sequence WHERE name = 'jobs'"));
  return JobId(static_cast<std::uint64_t>(last) + 1);
}

Status JobTable::insert(const Job& job) {
  DIVVY_TRY(insertion,
            connection_.prepare(
                "INSERT INTO jobs (id, owner, queue, name, submitted, state, stopping, attempt, "
                "failures, not_before, started, ended, array_job, array_index, array_at_once, "
                "spec) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"));
  insertion.add(signed_id(job.id)).add(job.owner).add(job.spec.queue).add(job.spec.name);
  insertion.add(job.submitted).add(to_string(job.state));
  insertion.add(job.stopping ? std::optional(to_string(*job.stopping)) : std::nullopt);
  insertion.add(job.attempt).add(job.failures).add(job.not_before).add(job.started).add(job.ended);
  insertion.add(job.task ? std::optional(signed_id(job.task->array)) : std::nullopt);
  insertion.add(job.task ? std::optional(job.task->index) : std::nullopt);
  insertion.add(job.task ? std::optional(job.task->at_once) : std::nullopt);
  insertion.add(model::write_job_spec(job.spec));
  if (const Status done = insertion.run(); !done) {
    return done.error().code == ErrorCode::kAlreadyExists
               ? err(ErrorCode::kAlreadyExists, "there is a job {} already", job.id)
               : done;
  }
  DIVVY_RETURN_IF_ERROR(add_steps(job, 0));
  return write_members(job);
}

Status JobTable::update(const Job& job) {
  DIVVY_TRY(update, connection_.prepare("UPDATE jobs SET queue = ?, state = ?, stopping = ?, "
                                        "attempt = ?, failures = ?, not_before = ?, started = ?, "
                                        "ended = ?, spec = ? WHERE id = ?"));
  update.add(job.spec.queue).add(to_string(job.state));
  update.add(job.stopping ? std::optional(to_string(*job.stopping)) : std::nullopt);
  update.add(job.attempt).add(job.failures).add(job.not_before).add(job.started).add(job.ended);
  // Its owner may have changed it since its submit.
  update.add(model::write_job_spec(job.spec));
  DIVVY_RETURN_IF_ERROR(update.add(signed_id(job.id)).run());
  if (connection_.changes() == 0) return err(ErrorCode::kNotFound, "there is no job {}", job.id);
  DIVVY_TRY(steps, connection_.prepare("SELECT count(*) FROM job_steps WHERE job = ?"));
  DIVVY_RETURN_IF_ERROR(steps.add(signed_id(job.id)).step());
  DIVVY_RETURN_IF_ERROR(add_steps(job, static_cast<std::size_t>(steps.integer(0))));
  return write_members(job);
}

Status JobTable::add_steps(const Job& job, std::size_t from) {
  for (std::size_t i = from; i < job.history.size(); ++i) {
    const model::JobStep& step = job.history[i];
    DIVVY_TRY(insertion, connection_.prepare("INSERT INTO job_steps VALUES (?, ?, ?, ?, ?)"));
    insertion.add(signed_id(job.id)).add(i).add(step.at).add(to_string(step.state));
    DIVVY_RETURN_IF_ERROR(insertion.add(step.reason).run());
  }
  return {};
}

Status JobTable::write_members(const Job& job) {
  if (job.attempt == 0) return {};
  DIVVY_TRY(removal, connection_.prepare("DELETE FROM job_members WHERE job = ? AND attempt = ?"));
  DIVVY_RETURN_IF_ERROR(removal.add(signed_id(job.id)).add(job.attempt).run());
  for (const model::JobMember& member : job.members) {
    DIVVY_TRY(insertion,
              connection_.prepare(
                  "INSERT INTO job_members (job, attempt, rank, node, slices, started, ended, "
                  "exit_code, signal, reason, cpu, ram_peak, gpu_memory_peak) "
                  "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"));
    insertion.add(signed_id(job.id)).add(job.attempt).add(member.rank).add(member.node);
    insertion.add(slices_text(member.slices)).add(job.started);
    if (member.end) {
      const model::MemberUse& use = member.end->use;
      insertion.add(member.end->at).add(member.end->exit_code).add(member.end->signal);
      insertion.add(member.end->reason);
      insertion.add(use.cpu ? std::optional(std::int64_t{use.cpu->count()}) : std::nullopt);
      insertion.add(stored(use.ram_peak)).add(stored(use.gpu_memory_peak));
    } else {
      for (int i = 0; i < 7; ++i) insertion.add(nullptr);
    }
    DIVVY_RETURN_IF_ERROR(insertion.run());
  }
  return {};
}

Result<std::vector<model::JobMember>> JobTable::read_members(JobId id, std::uint32_t attempt) {
  DIVVY_TRY(query,
            connection_.prepare("SELECT rank, node, slices, ended, exit_code, signal, reason, "
                                "cpu, ram_peak, gpu_memory_peak "
                                "FROM job_members WHERE job = ? AND attempt = ? ORDER BY rank"));
  query.add(signed_id(id)).add(attempt);
  std::vector<model::JobMember> members;
  for (;;) {
    DIVVY_TRY(row, query.step());
    if (!row) return members;
    model::JobMember& member = members.emplace_back();
    member.rank = static_cast<std::uint32_t>(query.integer(0));
    member.node = query.text(1);
    DIVVY_TRY(slices, read_slices(query.text(2)));
    member.slices = std::move(slices);
    if (query.is_null(3)) continue;
    member.end = model::MemberEnd{query.time(3), static_cast<int>(query.integer(4)),
                                  static_cast<int>(query.integer(5)), query.text(6)};
    model::MemberUse& use = member.end->use;
    if (!query.is_null(7)) use.cpu = Duration(query.integer(7));
    use.ram_peak = bytes_in(query, 8);
    use.gpu_memory_peak = bytes_in(query, 9);
  }
}

Result<Job> JobTable::read_job(Statement& row) {
  const JobId id(static_cast<std::uint64_t>(row.integer(0)));
  auto spec = model::read_job_spec(row.text(2));
  if (!spec) return err(damaged(id, spec.error()));
  Job job(id, row.text(1), *std::move(spec), row.time(3));
  if (!row.is_null(4)) {
    job.task = model::ArrayTask{JobId(static_cast<std::uint64_t>(row.integer(4))),
                                static_cast<std::uint32_t>(row.integer(5)),
                                static_cast<std::uint32_t>(row.integer(13))};
  }
  const auto state = model::parse_job_state(row.text(6));
  if (!state) return err(damaged(id, state.error()));
  job.state = *state;
  if (!row.is_null(7)) {
    const auto stopping = model::parse_stop_reason(row.text(7));
    if (!stopping) return err(damaged(id, stopping.error()));
    job.stopping = *stopping;
  }
  job.attempt = static_cast<std::uint32_t>(row.integer(8));
  job.failures = static_cast<std::uint32_t>(row.integer(9));
  job.not_before = row.optional_time(10);
  job.started = row.optional_time(11);
  job.ended = row.optional_time(12);

  // Most that are read were never started.
  if (job.attempt > 0) {
    auto members = read_members(id, job.attempt);
    if (!members) return err(damaged(id, members.error()));
    job.members = *std::move(members);
  }
  DIVVY_TRY(steps, connection_.prepare(
                       "SELECT at, state, reason FROM job_steps WHERE job = ? ORDER BY number"));
  steps.add(signed_id(id));
  for (;;) {
    DIVVY_TRY(more, steps.step());
    if (!more) return job;
    const auto step = model::parse_job_state(steps.text(1));
    if (!step) return err(damaged(id, step.error()));
    job.history.push_back({steps.time(0), *step, steps.text(2)});
  }
}

Result<std::optional<Job>> JobTable::find(JobId id) {
  DIVVY_TRY(query, connection_.prepare(kFind));
  DIVVY_TRY(row, query.add(signed_id(id)).step());
  if (!row) return std::nullopt;
  DIVVY_TRY(job, read_job(query));
  return job;
}

Result<JobPage> JobTable::list(const JobFilter& filter) {
  // The text depends on which filters there are, not on their values: there are few such texts.
  std::string sql = "SELECT " DIVVY_JOB_COLUMNS " FROM jobs WHERE true";
  for (std::size_t i = 0; i < filter.states.size(); ++i) {
    sql += i == 0 ? " AND state IN (?" : ", ?";
  }
  if (!filter.states.empty()) sql += ")";
  if (filter.owner) sql += " AND owner = ?";
  if (filter.queue) sql += " AND (queue = ? OR (queue >= ? AND queue < ?))";
  if (filter.name) sql += " AND name = ?";
  if (filter.array) sql += " AND array_job = ?";
  if (filter.submitted_since) sql += " AND submitted >= ?";
  if (filter.submitted_before) sql += " AND submitted < ?";
  if (filter.after) sql += filter.newest_first ? " AND id < ?" : " AND id > ?";
  sql += filter.newest_first ? " ORDER BY id DESC LIMIT ?" : " ORDER BY id LIMIT ?";

  DIVVY_TRY(query, connection_.prepare(sql));
  for (const JobState state : filter.states) query.add(to_string(state));
  if (filter.owner) query.add(*filter.owner);
  if (filter.queue) {
    const QueueRange range = below(*filter.queue);
    query.add(*filter.queue).add(range.first).add(range.end);
  }
  if (filter.name) query.add(*filter.name);
  if (filter.array) query.add(signed_id(*filter.array));
  if (filter.submitted_since) query.add(*filter.submitted_since);
  if (filter.submitted_before) query.add(*filter.submitted_before);
  if (filter.after) query.add(signed_id(*filter.after));
  const std::uint32_t limit = std::clamp(filter.limit, 1U, JobFilter::kMostPerPage);
  query.add(limit + 1);  // One more tells whether there is a next page

  JobPage page;
  for (;;) {
    DIVVY_TRY(row, query.step());
    if (!row) return page;
    if (page.jobs.size() == limit) {
      page.next = page.jobs.back().id;
      return page;
    }
    DIVVY_TRY(job, read_job(query));
    page.jobs.push_back(std::move(job));
  }
}

Result<std::vector<Job>> JobTable::unfinished() {
  DIVVY_TRY(query, connection_.prepare(kUnfinished));
  std::vector<Job> jobs;
  for (;;) {
    DIVVY_TRY(row, query.step());
    if (!row) return jobs;
    DIVVY_TRY(job, read_job(query));
    jobs.push_back(std::move(job));
  }
}

Result<std::vector<JobOutcome>> JobTable::outcomes(JobId id) {
  DIVVY_TRY(query, connection_.prepare("SELECT id, array_job, state FROM jobs WHERE id = ?1 OR "
                                       "array_job = ?1 ORDER BY id"));
  query.add(signed_id(id));
  std::vector<JobOutcome> outcomes;
  for (;;) {
    DIVVY_TRY(row, query.step());
    if (!row) return outcomes;
    JobOutcome& outcome = outcomes.emplace_back();
    outcome.id = JobId(static_cast<std::uint64_t>(query.integer(0)));
    if (!query.is_null(1)) outcome.array = JobId(static_cast<std::uint64_t>(query.integer(1)));
    DIVVY_TRY(state, model::parse_job_state(query.text(2)));
    outcome.state = state;
  }
}

Result<std::vector<JobAttempt>> JobTable::attempts(JobId id) {
  DIVVY_TRY(query, connection_.prepare("SELECT attempt, max(started) FROM job_members WHERE "
                                       "job = ? GROUP BY attempt ORDER BY attempt"));
  query.add(signed_id(id));
  std::vector<JobAttempt> attempts;
  for (;;) {
    DIVVY_TRY(row, query.step());
    if (!row) return attempts;
    const auto attempt = static_cast<std::uint32_t>(query.integer(0));
    DIVVY_TRY(members, read_members(id, attempt));
    attempts.push_back({attempt, std::move(members), query.optional_time(1)});
  }
}

Result<std::map<JobState, std::uint64_t>> JobTable::counts() {
  DIVVY_TRY(query, connection_.prepare("SELECT state, count(*) FROM jobs GROUP BY state"));
  std::map<JobState, std::uint64_t> counts;
  for (;;) {
    DIVVY_TRY(row, query.step());
    if (!row) return counts;
    DIVVY_TRY(state, model::parse_job_state(query.text(0)));
    counts[state] = static_cast<std::uint64_t>(query.integer(1));
  }
}

Result<std::vector<JobId>> JobTable::old_jobs(WallTime ended_before,
                                              const std::optional<std::string>& owner,
                                              std::uint32_t most) {
  // Most jobs wait for nobody; their documents need not be taken apart.
  DIVVY_TRY(query, connection_.prepare(
                       "WITH needed AS (SELECT json_extract(other.value, '$.job') AS job "
                       "FROM jobs AS waiting, json_each(waiting.spec, '$.after') AS other "
                       "WHERE waiting.state IN (" DIVVY_UNFINISHED ") "
                       "AND waiting.spec LIKE '%\"after\":[{%') "
                       "SELECT id FROM jobs WHERE ended IS NOT NULL AND ended < ?1 "
                       "AND state IN ('succeeded', 'failed', 'cancelled') "
                       "AND (?2 IS NULL OR owner = ?2) AND id NOT IN (SELECT job FROM needed) "
                       "AND (array_job IS NULL OR (array_job NOT IN (SELECT job FROM needed) "
                       "AND NOT EXISTS (SELECT 1 FROM jobs AS task WHERE "
                       "task.array_job = jobs.array_job AND "
                       "task.state IN (" DIVVY_UNFINISHED ")))) "
                       "ORDER BY ended, id LIMIT ?3"));
  query.add(ended_before).add(owner).add(most);
  return ids(query);
}

Result<std::optional<WallTime>> JobTable::end_behind(std::uint32_t newer) {
  DIVVY_TRY(query, connection_.prepare("SELECT ended FROM jobs WHERE ended IS NOT NULL "
                                       "ORDER BY ended DESC LIMIT 1 OFFSET ?"));
  DIVVY_TRY(row, query.add(newer).step());
  return row ? query.optional_time(0) : std::nullopt;
}

Result<std::vector<JobId>> JobTable::ended() {
  DIVVY_TRY(query, connection_.prepare("SELECT id FROM jobs WHERE ended IS NOT NULL "
                                       "ORDER BY ended, id"));
  return ids(query);
}

Result<std::vector<JobTable::MemberName>> JobTable::member_names(JobId id) {
  DIVVY_TRY(query, connection_.prepare("SELECT attempt, rank FROM job_members WHERE job = ?"));
  query.add(signed_id(id));
  std::vector<MemberName> names;
  for (;;) {
    DIVVY_TRY(row, query.step());
    if (!row) return names;
    names.push_back({static_cast<std::uint32_t>(query.integer(0)),
                     static_cast<std::uint32_t>(query.integer(1))});
  }
}

Status JobTable::remove(JobId id) {
  DIVVY_TRY(removal, connection_.prepare("DELETE FROM jobs WHERE id = ?"));
  return removal.add(signed_id(id)).run();
}

Result<std::vector<JobId>> JobTable::prune(WallTime ended_before,
                                           const std::optional<std::string>& owner,
                                           std::uint32_t most) {
  DIVVY_TRY(gone, old_jobs(ended_before, owner, most));
  for (const JobId id : gone) DIVVY_RETURN_IF_ERROR(remove(id));
  std::ranges::sort(gone);
  return gone;
}

}  // namespace divvy::store
