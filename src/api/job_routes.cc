#include "api/job_routes.h"

#include <algorithm>
#include <boost/json.hpp>
#include <charconv>
#include <limits>

#include "agent/waiting.h"
#include "api/answers.h"
#include "api/job_documents.h"
#include "api/json_fields.h"
#include "api/query.h"
#include "base/text.h"
#include "model/seconds.h"
#include "store/token_secret.h"

namespace divvy::api {
namespace {

namespace json = boost::json;
using net::HttpResponse;

constexpr std::string_view kJobs = "/v1/jobs";
constexpr std::string_view kWatch = "/v1/watch";
// For a machine to answer.
constexpr std::chrono::seconds kPatience{10};

JobDetail detail_for(const model::Person& who, const model::Job& job) {
  return may(who, Action::kLook, &job) ? JobDetail::kInside : JobDetail::kOutside;
}

HttpResponse no_such_route(const net::HttpRequest& request) {
  return problem(problem_document(
      404, "not found",
      fmt::format("{} cannot be done to {}", escape_for_terminal(request.method.substr(0, 20)),
                  escape_for_terminal(request.path.substr(0, 100)))));
}

Result<model::JobId> parse_job_id(std::string_view text) {
  std::uint64_t number = 0;
  const auto read = std::from_chars(text.begin(), text.end(), number);
  if (read.ec == std::errc() && read.ptr == text.end() && number > 0 &&
      number <= std::numeric_limits<std::int64_t>::max()) {
    return model::JobId(number);
  }
  return err(ErrorCode::kInvalidArgument, "\"{}\" is no number of a job; write one like 17",
             escape_for_terminal(text.substr(0, 40)));
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

}  // namespace

bool JobRoutes::handles(const std::string& path) {
  return path == kJobs || path == kWatch || path.starts_with(std::string(kJobs) + "/");
}

HttpResponse JobRoutes::handle(const net::HttpRequest& request, const net::Caller& caller) const {
  const auto who = parts_.people.identify(request, caller);
  if (!who) return People::refusal(who.error());
  Answer answered = route(request, *who);
  return answered ? *std::move(answered) : problem(answered.error());
}

JobRoutes::Answer JobRoutes::route(const net::HttpRequest& request,
                                   const model::Person& who) const {
  if (request.path == kWatch && request.method == "GET") return watch(request);
  if (request.path == kJobs && request.method == "GET") return list(request.query, who);
  if (request.path == kJobs && request.method == "POST") return submit(request, who);
  const auto words = split(std::string_view(request.path).substr(1), '/');  // v1 jobs ID WORD
  if (request.method == "POST" && words.size() == 3 && words[2] == "prune") {
    return prune(request.body, who);
  }
  if (words.size() == 3 || words.size() == 4) {
    return of_job(request, who, std::string(words[2]),
                  words.size() == 4 ? std::string(words[3]) : std::string());
  }
  return no_such_route(request);
}

JobRoutes::Answer JobRoutes::of_job(const net::HttpRequest& request, const model::Person& who,
                                    const std::string& id, const std::string& word) const {
  DIVVY_TRY(number, parse_job_id(id));
  DIVVY_TRY(job, find(number));
  const bool get_it = request.method == "GET";
  if (get_it && word.empty()) return get(job, who);
  if (get_it && word == "explain") return explain(job);
  const bool stream = request.method == "POST" && word == "stream";
  if (stream || (get_it && (word == "attempts" || word == "members" || word == "logs"))) {
    DIVVY_RETURN_IF_ERROR(may(who, Action::kLook, &job));
    if (word == "attempts") return attempts(job);
    if (job.spec.holder != model::Holder::kMembers) {
      return err(ErrorCode::kFailedPrecondition,
                 "{} is {}, which Divvy did not start: its output is where it was started, and "
                 "exec, attach and cp are for jobs of divvy submit",
                 job.spec.name,
                 job.spec.holder == model::Holder::kProcess ? "a process of its owner (divvy run)"
                                                            : "a slice that is held by its name");
    }
    if (stream) return open_stream(job, request);
    return word == "members" ? members(job) : logs(job, request.query);
  }
  const bool cancel = request.method == "DELETE" && word.empty();
  const bool suspend = request.method == "POST" && word == "suspend";
  const bool resume = request.method == "POST" && word == "resume";
  const bool requeue = request.method == "POST" && word == "requeue";
  const bool update = request.method == "PATCH" && word.empty();
  if (!cancel && !suspend && !resume && !requeue && !update) return no_such_route(request);
  DIVVY_RETURN_IF_ERROR(may(who, Action::kChange, &job));
  control::Dispatcher& dispatcher = parts_.dispatcher;
  const auto edit = [&request](const model::JobSpec& spec) {
    return parse_job_change(spec, request.body);
  };
  DIVVY_RETURN_IF_ERROR(cancel    ? dispatcher.cancel(job.id, who.name)
                        : suspend ? dispatcher.suspend(job.id, who.name)
                        : resume  ? dispatcher.resume(job.id, who.name)
                        : requeue ? dispatcher.requeue(job.id, who.name)
                                  : dispatcher.update(job.id, edit, who.name));
  DIVVY_TRY(now, find(number));
  return get(now, who);
}

Result<model::Job> JobRoutes::find(model::JobId id) const {
  if (auto job = parts_.dispatcher.find(id)) return *std::move(job);
  DIVVY_TRY(kept, parts_.database.read([&](store::Connection& connection) {
    return store::JobTable(connection).find(id);
  }));
  if (kept) return *std::move(kept);
  DIVVY_TRY(next, parts_.database.read([&](store::Connection& connection) {
    return store::JobTable(connection).next_id();
  }));
  if (id.value() > 0 && id < next) return err(removed(id));
  return err(ErrorCode::kNotFound, "there is no job {}; `divvy list --all` shows those there are",
             id);
}

// Numbers are given in order, so there was one.
Error JobRoutes::removed(model::JobId id) const {
  const model::Seconds keep = parts_.kept_for();
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

JobRoutes::Answer JobRoutes::submit(const net::HttpRequest& request,
                                    const model::Person& who) const {
  DIVVY_TRY(query, Query::parse(request.query));
  DIVVY_TRY(dry_run, query.flag("dry_run"));
  DIVVY_RETURN_IF_ERROR(query.nothing_left());
  DIVVY_TRY(spec, parse_new_job(request.body));
  control::NewJob wanted(std::move(spec));
  wanted.owner = who.name;
  json::object document = headed("JobList");
  if (dry_run) {
    DIVVY_RETURN_IF_ERROR(parts_.dispatcher.check(wanted.spec, wanted.owner));
    document["items"] = json::array();
    document["dryRun"] = true;
    return answer(200, document);
  }
  if (const std::string_view key = request.header("idempotency-key"); !key.empty()) {
    wanted.key = std::string(key);
    wanted.fingerprint = store::hash_text(request.body);
  }
  DIVVY_TRY(submitted, parts_.dispatcher.submit(wanted));
  json::array items;
  for (const model::Job& job : submitted.jobs) {
    items.push_back(job_document(job, JobDetail::kInside));
  }
  document["items"] = std::move(items);
  return answer(submitted.repeated ? 200 : 201, document);
}

JobRoutes::Answer JobRoutes::list(const std::string& query, const model::Person& who) const {
  DIVVY_TRY(filter, parse_jobs_query(query));
  DIVVY_TRY(page, parts_.database.read([&](store::Connection& connection) {
    return store::JobTable(connection).list(filter);
  }));
  json::object document = headed("JobList");
  json::array items;
  for (const model::Job& job : page.jobs) items.push_back(job_document(job, detail_for(who, job)));
  document["items"] = std::move(items);
  document["next"] = page.next ? json::value(page.next->value()) : json::value(nullptr);
  return answer(200, document);
}

JobRoutes::Answer JobRoutes::get(const model::Job& job, const model::Person& who) const {
  json::object document = job_document(job, detail_for(who, job));
  document["waits"] = nullptr;
  if (job.state == model::JobState::kQueued || job.state == model::JobState::kSuspended) {
    document["waits"] = wait_document(parts_.dispatcher.explain(job.id));
  }
  const auto idle = parts_.dispatcher.idle_left(job.id);
  document["idleLeftSeconds"] = idle ? json::value(idle->count()) : json::value(nullptr);
  document["accounting"] = nullptr;
  if (job.attempt > 0 && may(who, Action::kLook, &job)) {
    DIVVY_TRY(used, accounting(job));
    document["accounting"] = std::move(used);
  }
  return answer(200, document);
}

Result<json::object> JobRoutes::accounting(const model::Job& job) const {
  return parts_.database.read([&](store::Connection& connection) -> Result<json::object> {
    DIVVY_TRY(attempts, store::JobTable(connection).attempts(job.id));
    store::UsageFilter filter;
    filter.job = job.id;
    DIVVY_TRY(sums, store::UsageTable(connection).report(store::UsageBy::kJob, filter));
    const store::UsageSum usage = sums.empty() ? store::UsageSum() : sums.front();
    return accounting_document(job, attempts, usage, parts_.clock.wall_now());
  });
}

JobRoutes::Answer JobRoutes::explain(const model::Job& job) const {
  const jobs::WaitReport report = parts_.dispatcher.explain(job.id);
  json::object document = headed("Explanation");
  document["job"] = job.id.value();
  document["state"] = to_string(job.state);
  document["waits"] = wait_document(report);
  document["details"] = report.details;
  return answer(200, document);
}

JobRoutes::Answer JobRoutes::attempts(const model::Job& job) const {
  DIVVY_TRY(all, parts_.database.read([&](store::Connection& connection) {
    return store::JobTable(connection).attempts(job.id);
  }));
  json::object document = headed("AttemptList");
  json::array items;
  for (const store::JobAttempt& attempt : all) items.push_back(attempt_document(attempt));
  document["items"] = std::move(items);
  return answer(200, document);
}

JobRoutes::Answer JobRoutes::members(const model::Job& job) const {
  json::object document = headed("MemberList");
  json::array items;
  for (const model::JobMember& member : job.members) {
    const model::MemberKey key{job.id, job.attempt, member.rank};
    agent::Agent* const agent = parts_.agents.find(member.node);
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
  document["items"] = std::move(items);
  return answer(200, document);
}

JobRoutes::Answer JobRoutes::prune(const std::string& body, const model::Person& who) const {
  DIVVY_TRY(fields, JsonFields::parse(body));
  DIVVY_TRY(older, fields.seconds("older_than"));
  DIVVY_TRY(everybody, fields.flag("everybody"));
  DIVVY_RETURN_IF_ERROR(fields.nothing_left());
  if (everybody.value_or(false)) DIVVY_RETURN_IF_ERROR(may(who, Action::kAdminister, nullptr));
  const WallTime before = parts_.clock.wall_now() - older.value_or(model::Seconds(0));
  std::vector<model::JobId> gone;
  const Status pruned = parts_.database.commit([&](store::Connection& connection) -> Status {
    const auto owner = everybody.value_or(false) ? std::nullopt : std::optional(who.name);
    DIVVY_TRY(forgotten, store::JobTable(connection).prune(before, owner));
    gone = std::move(forgotten);
    return {};
  });
  if (!pruned) return err(pruned.error());
  // Their output goes with them.
  for (agent::Agent* const agent : parts_.agents.all()) {
    DIVVY_TRY(sizes, agent::ask_and_wait(*agent, agent::OutputSizesOrder{}, kPatience));
    for (const auto& [key, size] : sizes.members) {
      if (!std::ranges::binary_search(gone, key.job)) continue;
      DIVVY_RETURN_IF_ERROR(agent::ask_and_wait(*agent, agent::ForgetOrder{key}, kPatience));
    }
  }
  json::object document = headed("PruneResult");
  json::array items;
  for (const model::JobId job : gone) items.push_back(job.value());
  document["jobs"] = std::move(items);
  return answer(200, document);
}

}  // namespace divvy::api
