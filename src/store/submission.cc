#include "store/submission.h"

#include "base/check.h"
#include "model/job_document.h"
#include "store/job_table.h"

namespace divvy::store {
namespace {

using model::Job;
using model::JobId;

// Every task of an array has its own copy of what was submitted; a large one many times is a way to
// fill a disk.
constexpr std::size_t kLargestArray = 64U << 20U;

Status check_size(const std::vector<Job>& jobs) {
  if (jobs.size() == 1) return {};
  const std::size_t size = model::write_job_spec(jobs.front().spec).size();
  if (size <= kLargestArray / jobs.size()) return {};
  return err(ErrorCode::kOutOfRange,
             "array: {} tasks of {} bytes each are too much; put what is large into a file",
             jobs.size(), size);
}

// The jobs of the first time, or nothing when the key is new.
Result<std::optional<Submitted>> find_key(Connection& connection, const Submission& submission) {
  DIVVY_TRY(query, connection.prepare("SELECT fingerprint, first_job, jobs FROM submissions "
                                      "WHERE user = ? AND key = ?"));
  DIVVY_TRY(known, query.add(submission.owner).add(*submission.key).step());
  if (!known) return std::nullopt;
  if (query.text(0) != submission.fingerprint) {
    return err(ErrorCode::kFailedPrecondition,
               "this idempotency key was used for another request; take a new one");
  }
  const auto first = static_cast<std::uint64_t>(query.integer(1));
  const auto count = static_cast<std::uint64_t>(query.integer(2));
  Submitted submitted{.jobs = {}, .repeated = true};
  for (std::uint64_t id = first; id < first + count; ++id) {
    DIVVY_TRY(job, JobTable(connection).find(JobId(id)));
    if (job) submitted.jobs.push_back(*std::move(job));
  }
  if (submitted.jobs.empty()) {
    return err(ErrorCode::kNotFound,
               "this idempotency key is that of job {}, which is no longer kept", first);
  }
  return submitted;
}

Status check_dependencies(Connection& connection, const model::JobSpec& spec) {
  for (std::size_t i = 0; i < spec.after.size(); ++i) {
    DIVVY_TRY(query, connection.prepare("SELECT 1 FROM jobs WHERE id = ?"));
    DIVVY_TRY(known, query.add(spec.after[i].job.value()).step());
    if (!known) {
      return err(ErrorCode::kNotFound, "after[{}].job: there is no job {} to wait for", i,
                 spec.after[i].job);
    }
  }
  return {};
}

Status remember_key(Connection& connection, const Submission& submission, JobId first,
                    std::size_t count) {
  DIVVY_TRY(insertion,
            connection.prepare("INSERT INTO submissions (user, key, fingerprint, first_job, jobs, "
                               "at) VALUES (?, ?, ?, ?, ?, ?)"));
  insertion.add(submission.owner).add(*submission.key).add(submission.fingerprint);
  return insertion.add(first.value()).add(count).add(submission.at).run();
}

}  // namespace

Result<Submitted> submit(Connection& connection, const Submission& submission) {
  if (submission.key) {
    if (submission.key->empty() || submission.key->size() > Submission::kLongestKey) {
      return err(ErrorCode::kInvalidArgument, "an idempotency key has 1 to {} characters",
                 Submission::kLongestKey);
    }
    DIVVY_TRY(before, find_key(connection, submission));
    if (before) return *std::move(before);
  }
  JobTable table(connection);
  DIVVY_TRY(next, table.next_id());
  const JobId first = submission.first.value_or(next);
  Submitted submitted{.jobs = submission.make(first), .repeated = false};
  DIVVY_CHECK(!submitted.jobs.empty(), "nothing was submitted");
  DIVVY_RETURN_IF_ERROR(check_size(submitted.jobs));
  DIVVY_RETURN_IF_ERROR(check_dependencies(connection, submitted.jobs.front().spec));
  for (const Job& job : submitted.jobs) DIVVY_RETURN_IF_ERROR(table.insert(job));
  if (submission.key) {
    DIVVY_RETURN_IF_ERROR(remember_key(connection, submission, first, submitted.jobs.size()));
  }
  return submitted;
}

Status forget_keys(Connection& connection, WallTime before) {
  DIVVY_TRY(removal, connection.prepare("DELETE FROM submissions WHERE at < ?"));
  return removal.add(before).run();
}

}  // namespace divvy::store
