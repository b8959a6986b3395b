#include <algorithm>
#include <boost/json.hpp>

#include "agent/waiting.h"
#include "api/answers.h"
#include "api/handlers.h"
#include "api/job_documents.h"
#include "api/query.h"
#include "model/json_fields.h"
#include "model/seconds.h"
#include "store/token_secret.h"

namespace divvy::api {
namespace {

namespace json = boost::json;
using net::HttpResponse;

// For a machine to answer.
constexpr std::chrono::seconds kPatience{10};

JobDetail detail_for(const model::Person& who, const model::Job& job) {
  return may(who, Permission::kLookInsideJob, &job) ? JobDetail::kInside : JobDetail::kOutside;
}

std::int64_t milliseconds(WallTime time) {
  return std::chrono::duration_cast<std::chrono::milliseconds>(time.time_since_epoch()).count();
}

json::object wait_document(const jobs::WaitReport& report) {
  json::object document{{"kind", to_string(report.kind)}, {"text", report.text}};
  document["place"] = report.place ? json::value(*report.place) : json::value(nullptr);
  document["inLine"] = report.in_line;
  document["startsUnixMilliseconds"] =
      report.starts ? json::value(milliseconds(*report.starts)) : json::value(nullptr);
  return document;
}

// Of a number that was given: they are given in order, so there was one.
Error removed(const Parts& parts, model::JobId id) {
  const model::Seconds keep = parts.kept_for();
  if (keep == model::Seconds(0)) {
    return {ErrorCode::kNotFound,
            fmt::format("job {} was removed after its end (divvy prune, queue.keep_finished_jobs)",
                        id)};
  }
  return {ErrorCode::kNotFound,
          fmt::format("job {} was removed after its end: jobs that have ended are kept for {} "
                      "(queue.keep_finished), or until `divvy prune`",
                      id, model::seconds_text(keep))};
}

Result<json::object> accounting(const Parts& parts, const model::Job& job) {
  return parts.database.read([&](store::Connection& connection) -> Result<json::object> {
    DIVVY_TRY(attempts, store::JobTable(connection).attempts(job.id));
    store::UsageFilter filter;
    filter.job = job.id;
    DIVVY_TRY(sums, store::UsageTable(connection).report(store::UsageBy::kJob, filter));
    const store::UsageSum usage = sums.empty() ? store::UsageSum() : sums.front();
    return accounting_document(job, attempts, usage, parts.clock.wall_now());
  });
}

// As it stands after a change.
Answer changed(const Call& call, const model::Job& job, const Status& done) {
  if (!done && done.error().code == ErrorCode::kNotFound && model::is_finished(job.state)) {
    return err(ErrorCode::kFailedPrecondition, "job {} has ended already: {}", job.id,
               to_string(job.state));
  }
  if (!done) return err(done.error());
  DIVVY_TRY(now, find_job(call.parts, job.id));
  return get_job(call, now);
}

}  // namespace

Result<model::Job> find_job(const Parts& parts, model::JobId id) {
  if (auto job = parts.dispatcher.find(id)) return *std::move(job);
  DIVVY_TRY(kept, parts.database.read([&](store::Connection& connection) {
    return store::JobTable(connection).find(id);
  }));
  if (kept) return *std::move(kept);
  DIVVY_TRY(next, parts.database.read([&](store::Connection& connection) {
    return store::JobTable(connection).next_id();
  }));
  if (id.value() > 0 && id < next) return err(removed(parts, id));
  return err(ErrorCode::kNotFound, "there is no job {}; `divvy list --all` shows those there are",
             id);
}

Status check_has_members(const model::Job& job) {
  if (job.spec.holder == model::Holder::kMembers) return {};
  return err(ErrorCode::kFailedPrecondition,
             "{} is {}, which Divvy did not start: its output is where it was started, and exec, "
             "attach and cp are for jobs of divvy submit",
             job.spec.name,
             job.spec.holder == model::Holder::kProcess ? "a process of its owner (divvy run)"
                                                        : "a slice that is held by its name");
}

Answer change_job(const Call& call, const model::Job& job) {
  const auto edit = [&call](const model::JobSpec& spec) {
    return parse_job_change(spec, call.request.body);
  };
  return changed(call, job, call.parts.dispatcher.update(job.id, edit, call.who.name));
}

Answer cancel_job(const Call& call, const model::Job& job) {
  return changed(call, job, call.parts.dispatcher.cancel(job.id, call.who.name));
}

Answer suspend_job(const Call& call, const model::Job& job) {
  return changed(call, job, call.parts.dispatcher.suspend(job.id, call.who.name));
}

Answer resume_job(const Call& call, const model::Job& job) {
  return changed(call, job, call.parts.dispatcher.resume(job.id, call.who.name));
}

Answer requeue_job(const Call& call, const model::Job& job) {
  return changed(call, job, call.parts.dispatcher.requeue(job.id, call.who.name));
}

Answer submit_job(const Call& call) {
  DIVVY_TRY(query, Query::parse(call.request.query));
  DIVVY_TRY(dry_run, query.flag("dry_run"));
  DIVVY_RETURN_IF_ERROR(query.nothing_left());
  DIVVY_TRY(spec, parse_new_job(call.request.body));
  control::NewJob wanted(std::move(spec));
  wanted.owner = call.who.name;
  json::object document = headed("JobList");
  if (dry_run) {
    DIVVY_RETURN_IF_ERROR(call.parts.dispatcher.check(wanted.spec, wanted.owner));
    document["items"] = json::array();
    document["dryRun"] = true;
    return answer(200, document);
  }
  if (const std::string_view key = call.request.header("idempotency-key"); !key.empty()) {
    wanted.key = std::string(key);
    wanted.fingerprint = store::hash_text(call.request.body);
  }
  DIVVY_TRY(submitted, call.parts.dispatcher.submit(wanted));
  json::array items;
  for (const model::Job& job : submitted.jobs) {
    items.push_back(job_document(job, JobDetail::kInside));
  }
  document["items"] = std::move(items);
  if (submitted.repeated) return answer(200, document);
  return created(fmt::format("/v1/jobs/{}", submitted.jobs.front().id), document);
}

Answer list_jobs(const Call& call) {
  DIVVY_TRY(filter, parse_jobs_query(call.request.query));
  DIVVY_TRY(page, call.parts.database.read([&](store::Connection& connection) {
    return store::JobTable(connection).list(filter);
  }));
  json::object document = headed("JobList");
  json::array items;
  for (const model::Job& job : page.jobs)
    items.push_back(job_document(job, detail_for(call.who, job)));
  document["items"] = std::move(items);
  document["next"] = page.next ? json::value(page.next->value()) : json::value(nullptr);
  return answer(200, document);
}

Answer get_job(const Call& call, const model::Job& job) {
  json::object document = job_document(job, detail_for(call.who, job));
  document["waits"] = nullptr;
  if (job.state == model::JobState::kQueued || job.state == model::JobState::kSuspended) {
    document["waits"] = wait_document(call.parts.dispatcher.explain(job.id));
  }
  const auto idle = call.parts.dispatcher.idle_left(job.id);
  document["idleLeftSeconds"] = idle ? json::value(idle->count()) : json::value(nullptr);
  document["accounting"] = nullptr;
  if (job.attempt > 0 && may(call.who, Permission::kLookInsideJob, &job)) {
    DIVVY_TRY(used, accounting(call.parts, job));
    document["accounting"] = std::move(used);
  }
  return answer(200, document);
}

Answer explain_job(const Call& call, const model::Job& job) {
  const jobs::WaitReport report = call.parts.dispatcher.explain(job.id);
  return answer(200, headed("Explanation", {{"job", job.id.value()},
                                            {"state", to_string(job.state)},
                                            {"waits", wait_document(report)},
                                            {"details", report.details}}));
}

Answer list_attempts(const Call& call, const model::Job& job) {
  DIVVY_TRY(all, call.parts.database.read([&](store::Connection& connection) {
    return store::JobTable(connection).attempts(job.id);
  }));
  json::array items;
  for (const store::JobAttempt& attempt : all) items.push_back(attempt_document(attempt));
  return answer(200, listed("AttemptList", std::move(items)));
}

Answer list_members(const Call& call, const model::Job& job) {
  DIVVY_RETURN_IF_ERROR(check_has_members(job));
  json::array items;
  for (const model::JobMember& member : job.members) {
    const model::MemberKey key{job.id, job.attempt, member.rank};
    agent::Agent* const agent = call.parts.agents.find(member.node);
    std::optional<model::MemberReport> report;
    if (agent != nullptr) {
      const auto found = agent::ask_and_wait(*agent, agent::FindOrder{key}, kPatience);
      if (found) report = found->report;
    }
    items.push_back({{"rank", member.rank},
                     {"name", to_string(key)},
                     {"node", member.node},
                     {"phase", report ? json::value(to_string(report->phase)) : json::value()},
                     {"pid", report ? report->pid : 0},
                     {"without", report ? report->without : ""}});
  }
  return answer(200, listed("MemberList", std::move(items)));
}

Answer prune_jobs(const Call& call) {
  DIVVY_TRY(document, model::parse_json(call.request.body));
  model::JsonFields fields(document);
  model::Seconds older(0);
  bool everybody = false;
  fields.read("older_than", older);
  fields.read("everybody", everybody);
  DIVVY_RETURN_IF_ERROR(fields.finish());
  if (everybody) DIVVY_RETURN_IF_ERROR(may(call.who, Permission::kAdmin));
  const WallTime before = call.parts.clock.wall_now() - older;
  std::vector<model::JobId> gone;
  const Status pruned = call.parts.database.commit([&](store::Connection& connection) -> Status {
    const auto owner = everybody ? std::nullopt : std::optional(call.who.name);
    DIVVY_TRY(forgotten, store::JobTable(connection).prune(before, owner));
    gone = std::move(forgotten);
    return {};
  });
  if (!pruned) return err(pruned.error());
  // Their output goes with them.
  for (agent::Agent* const agent : call.parts.agents.all()) {
    DIVVY_TRY(sizes, agent::ask_and_wait(*agent, agent::OutputSizesOrder{}, kPatience));
    for (const auto& [key, size] : sizes.members) {
      if (!std::ranges::binary_search(gone, key.job)) continue;
      DIVVY_RETURN_IF_ERROR(agent::ask_and_wait(*agent, agent::ForgetOrder{key}, kPatience));
    }
  }
  json::array items;
  for (const model::JobId job : gone) items.push_back(job.value());
  return answer(200, headed("PruneResult", {{"jobs", std::move(items)}}));
}

}  // namespace divvy::api
