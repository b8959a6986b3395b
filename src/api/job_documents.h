// Jobs, and what the store keeps besides, as JSON in the schema divvy/v1, and requests about them.
// Fields are added, never renamed or taken away. Pure, callable from any thread.
#pragma once

#include <boost/json/fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "model/job.h"
#include "model/person.h"
#include "store/event_table.h"
#include "store/job_table.h"
#include "store/people_table.h"
#include "store/usage_table.h"

namespace divvy::api {

// The body of a submit: a job that passed model::check(), or the field and what is wrong with it.
[[nodiscard]] Result<model::JobSpec> parse_job_request(std::string_view body);
// As it may be submitted: Divvy starts its members.
[[nodiscard]] Result<model::JobSpec> parse_new_job(std::string_view body);
// A job with the fields of `body` (JSON) instead of its own; null takes one away. Only those that
// can be changed after the submit.
[[nodiscard]] Result<model::JobSpec> parse_job_change(const model::JobSpec& spec,
                                                      std::string_view body);

// "state=queued,running&owner=ada&queue=research&name=&array=&since=&before=&order=oldest&after=7&
// limit=100", all of them optional.
[[nodiscard]] Result<store::JobFilter> parse_jobs_query(std::string_view query);
// "about=jobs|machines|all&after=12&job=7&user=ada&limit=100&from=now"
struct WatchQuery {
  store::EventFilter filter;
  // Nothing of what has been, and a sign of life at once, after which whoever watches can look at
  // the jobs and miss nothing.
  bool from_now = false;
};
[[nodiscard]] Result<WatchQuery> parse_watch_query(std::string_view query);
// "by=user|queue|job|hour&since=&before=&user=&queue=&job=&format=json|csv"
struct UsageQuery {
  store::UsageBy by = store::UsageBy::kUser;
  bool csv = false;
  store::UsageFilter filter;
};
[[nodiscard]] Result<UsageQuery> parse_usage_query(std::string_view query);

// Who may not look inside a job gets what everybody sees: whose it is, where it stands, what it
// holds; not its command, environment, mounts or labels.
enum class JobDetail { kOutside, kInside };
[[nodiscard]] boost::json::object job_document(const model::Job& job, JobDetail detail);

[[nodiscard]] boost::json::object attempt_document(const store::JobAttempt& attempt);
// What all its attempts waited, held and used together; of one that runs: so far.
[[nodiscard]] boost::json::object accounting_document(
    const model::Job& job, const std::vector<store::JobAttempt>& attempts,
    const store::UsageSum& usage, WallTime now);
[[nodiscard]] boost::json::object stored_event_document(const store::EventRow& event);
[[nodiscard]] boost::json::object person_document(const model::Person& person);
[[nodiscard]] boost::json::object token_document(const store::TokenRecord& token);
[[nodiscard]] boost::json::object usage_document(const store::UsageSum& sum);

// With a head; numbers in GPU hours with three decimals. Cells that a spreadsheet would take for a
// formula are quoted.
[[nodiscard]] std::string usage_csv(store::UsageBy by, const std::vector<store::UsageSum>& sums);

}  // namespace divvy::api
