#include "api/job_documents.h"

#include <algorithm>
#include <array>
#include <boost/json.hpp>

#include "api/query.h"
#include "base/text.h"
#include "model/job_document.h"
#include "model/seconds.h"

namespace divvy::api {
namespace {

namespace json = boost::json;
using model::Job;
using model::JobId;

// In the order of store::EventFilter::About.
constexpr std::array<std::string_view, 3> kAbout{"jobs", "machines", "all"};
constexpr std::array<std::string_view, 4> kUsageBy{"user", "queue", "job", "hour"};

std::int64_t milliseconds(WallTime time) {
  return std::chrono::floor<std::chrono::milliseconds>(time.time_since_epoch()).count();
}
json::value milliseconds(const std::optional<WallTime>& time) {
  return time ? json::value(milliseconds(*time)) : json::value(nullptr);
}
// Reasons have names of programs and of GPUs in them; JSON is UTF-8.
std::string safe(std::string_view text) { return escape_for_terminal(text); }

template <typename T>
json::value bytes_or_null(const std::optional<T>& bytes) {
  return bytes ? json::value(bytes->count()) : json::value(nullptr);
}
json::value milliseconds(const std::optional<Duration>& time) {
  if (!time) return nullptr;
  return std::chrono::floor<std::chrono::milliseconds>(*time).count();
}

// What somebody used is shown to those who may look inside.
json::object end_document(const model::MemberEnd& end, JobDetail detail) {
  json::object document{{"unixMilliseconds", milliseconds(end.at)},
                        {"exitCode", end.exit_code},
                        {"signal", end.signal},
                        {"reason", safe(end.reason)}};
  if (detail == JobDetail::kOutside) return document;
  document["cpuMilliseconds"] = milliseconds(end.use.cpu);
  document["ramPeakBytes"] = bytes_or_null(end.use.ram_peak);
  document["gpuMemoryPeakBytes"] = bytes_or_null(end.use.gpu_memory_peak);
  return document;
}

json::object member_document(const model::JobMember& member, JobDetail detail) {
  json::array slices;
  for (const model::Slice& slice : member.slices) {
    slices.push_back(json::object{{"gpu", slice.gpu().str()},
                                  {"shareThousandths", slice.share().thousandths()},
                                  {"capped", slice.kind() == model::ShareKind::kCap},
                                  {"memoryLimitBytes", slice.memory().count()}});
  }
  json::object document{{"rank", member.rank},
                        {"node", safe(member.node)},
                        {"slices", std::move(slices)},
                        {"end", nullptr}};
  if (member.end) document["end"] = end_document(*member.end, detail);
  return document;
}

json::array member_documents(const std::vector<model::JobMember>& members, JobDetail detail) {
  json::array list;
  for (const model::JobMember& member : members) list.push_back(member_document(member, detail));
  return list;
}

// How long its members ran, all attempts together.
Duration time_run(const Job& job, WallTime now) {
  Duration sum{0};
  bool runs = false;
  WallTime since{};
  for (const model::JobStep& step : job.history) {
    if (step.state == model::JobState::kRunning && !runs) {
      runs = true;
      since = step.at;
    }
    if (!runs || model::is_active(step.state)) continue;
    runs = false;
    sum += step.at - since;
  }
  if (runs) sum += now - since;
  return std::max(sum, Duration(0));
}

template <typename T>
void keep_largest(std::optional<T>& most, const std::optional<T>& value) {
  if (value) most = std::max(most.value_or(*value), *value);
}

Result<std::optional<JobId>> job_in(Query& query, std::string_view name) {
  DIVVY_TRY(number, query.number(name));
  if (!number) return std::nullopt;
  return JobId(*number);
}

// Thousandths of a GPU times seconds.
std::string gpu_hours(std::uint64_t share_seconds) {
  const std::uint64_t thousandths = (share_seconds + 1800) / 3600;
  return fmt::format("{}.{:03}", thousandths / 1000, thousandths % 1000);
}

}  // namespace

Result<model::JobSpec> parse_job_request(std::string_view body) {
  DIVVY_TRY(spec, model::read_job_spec(body));
  DIVVY_RETURN_IF_ERROR(model::check(spec));
  return spec;
}

Result<model::JobSpec> parse_new_job(std::string_view body) {
  DIVVY_TRY(spec, parse_job_request(body));
  const bool only_digits =
      std::ranges::all_of(spec.name, [](char c) { return c >= '0' && c <= '9'; });
  if (!spec.name.empty() && only_digits) {
    return err(ErrorCode::kInvalidArgument,
               "name: {0} is a number, and that is always the job with this number; write it like "
               "run-{0}",
               spec.name);
  }
  if (spec.holder == model::Holder::kMembers) return spec;
  return err(
      ErrorCode::kInvalidArgument,
      "holder: a job that is submitted has members; `divvy run` and `divvy slice create` ask "
      "for slices of their own");
}

Result<model::JobSpec> parse_job_change(const model::JobSpec& spec, std::string_view body) {
  constexpr std::string_view kFields[] = {"priority", "time_limit", "expected", "queue",
                                          "gpu",      "gpu_memory", "members"};
  boost::system::error_code code;
  const json::value changes = json::parse(body, code);
  if (code || !changes.is_object() || changes.get_object().empty()) {
    return err(ErrorCode::kInvalidArgument,
               "the body has to be a JSON object with what is to change: {}",
               fmt::join(kFields, ", "));
  }
  json::value document = json::parse(model::write_job_spec(spec));
  for (const auto& change : changes.get_object()) {
    const std::string_view field = change.key();
    if (std::ranges::find(kFields, field) == std::end(kFields)) {
      const auto meant = did_you_mean(field, kFields);
      return err(ErrorCode::kInvalidArgument, "{}: {}", escape_for_terminal(field.substr(0, 40)),
                 meant ? fmt::format("there is no such field; did you mean {}?", *meant)
                       : fmt::format("only these can be changed after the submit: {}",
                                     fmt::join(kFields, ", ")));
    }
    document.as_object()[field] = change.value();
  }
  return parse_job_request(json::serialize(document));
}

Result<store::JobFilter> parse_jobs_query(std::string_view text) {
  DIVVY_TRY(query, Query::parse(text));
  store::JobFilter filter;
  for (const std::string& word : query.list("state")) {
    DIVVY_TRY(state, with_context(model::parse_job_state(word), "state"));
    if (std::ranges::find(filter.states, state) == filter.states.end()) {
      filter.states.push_back(state);
    }
  }
  filter.owner = query.text("owner");
  filter.queue = query.text("queue");
  filter.name = query.text("name");
  DIVVY_TRY(array, job_in(query, "array"));
  filter.array = array;
  DIVVY_TRY(since, query.time("since"));
  filter.submitted_since = since;
  DIVVY_TRY(before, query.time("before"));
  filter.submitted_before = before;
  DIVVY_TRY(order, query.word("order", {"newest", "oldest"}));
  filter.newest_first = order == "newest";
  DIVVY_TRY(after, job_in(query, "after"));
  filter.after = after;
  DIVVY_TRY(limit, query.limit(store::JobFilter::kMostPerPage));
  filter.limit = limit;
  DIVVY_RETURN_IF_ERROR(query.nothing_left());
  return filter;
}

Result<WatchQuery> parse_watch_query(std::string_view text) {
  DIVVY_TRY(query, Query::parse(text));
  WatchQuery watch;
  store::EventFilter& filter = watch.filter;
  if (const auto about = query.text("about")) {
    const auto* const found = std::ranges::find(kAbout, *about);
    if (found == kAbout.end()) {
      return err(ErrorCode::kInvalidArgument, "\"about\" is {}", fmt::join(kAbout, ", "));
    }
    filter.about = static_cast<store::EventFilter::About>(found - kAbout.begin());
  }
  if (const auto from = query.text("from")) {
    if (*from != "now") return err(ErrorCode::kInvalidArgument, "\"from\" can only be now");
    watch.from_now = true;
  }
  DIVVY_TRY(after, query.number("after"));
  filter.after = after.value_or(0);
  DIVVY_TRY(job, job_in(query, "job"));
  filter.job = job;
  filter.user = query.text("user");
  DIVVY_TRY(limit, query.limit(store::EventFilter::kMostPerPage));
  filter.limit = limit;
  DIVVY_RETURN_IF_ERROR(query.nothing_left());
  return watch;
}

Result<UsageQuery> parse_usage_query(std::string_view text) {
  DIVVY_TRY(query, Query::parse(text));
  UsageQuery usage;
  if (const auto by = query.text("by")) {
    const auto* const found = std::ranges::find(kUsageBy, *by);
    if (found == kUsageBy.end()) {
      return err(ErrorCode::kInvalidArgument, "\"by\" is {}", fmt::join(kUsageBy, ", "));
    }
    usage.by = static_cast<store::UsageBy>(found - kUsageBy.begin());
  }
  DIVVY_TRY(since, query.time("since"));
  usage.filter.since = since;
  DIVVY_TRY(before, query.time("before"));
  usage.filter.before = before;
  usage.filter.owner = query.text("user");
  usage.filter.queue = query.text("queue");
  DIVVY_TRY(job, job_in(query, "job"));
  usage.filter.job = job;
  DIVVY_TRY(format, query.word("format", {"json", "csv"}));
  usage.csv = format == "csv";
  DIVVY_RETURN_IF_ERROR(query.nothing_left());
  return usage;
}

json::object job_document(const Job& job, JobDetail detail) {
  const model::JobSpec& spec = job.spec;
  json::object document{
      {"id", job.id.value()},
      {"name", spec.name},
      {"owner", job.owner},
      {"queue", spec.queue},
      {"state", to_string(job.state)},
      {"stopping", job.stopping ? json::value(to_string(*job.stopping)) : json::value(nullptr)},
      {"class", to_string(spec.job_class)},
      {"priority", spec.priority},
      {"members", spec.members()},
      {"shareThousandths", spec.request.share().thousandths()},
      {"gpuMemoryBytes", bytes_or_null(spec.request.memory())},
      {"array", job.task ? json::value(job.task->array.value()) : json::value(nullptr)},
      {"arrayIndex", job.task ? json::value(job.task->index) : json::value(nullptr)},
      {"submittedUnixMilliseconds", milliseconds(job.submitted)},
      {"startedUnixMilliseconds", milliseconds(job.started)},
      {"endedUnixMilliseconds", milliseconds(job.ended)},
      {"notBeforeUnixMilliseconds", milliseconds(job.not_before)},
      {"attempt", job.attempt},
      {"failures", job.failures},
      {"running", member_documents(job.members, detail)}};
  if (detail == JobDetail::kOutside) return document;
  json::array history;
  for (const model::JobStep& step : job.history) {
    history.push_back(json::object{{"unixMilliseconds", milliseconds(step.at)},
                                   {"state", to_string(step.state)},
                                   {"reason", safe(step.reason)}});
  }
  document["history"] = std::move(history);
  document["spec"] = json::parse(model::write_job_spec(spec));
  return document;
}

json::object attempt_document(const store::JobAttempt& attempt) {
  return {{"attempt", attempt.attempt},
          {"startedUnixMilliseconds", milliseconds(attempt.started)},
          {"members", member_documents(attempt.members, JobDetail::kInside)}};
}

json::object accounting_document(const Job& job, const std::vector<store::JobAttempt>& attempts,
                                 const store::UsageSum& usage, WallTime now) {
  model::MemberUse all;
  for (const store::JobAttempt& attempt : attempts) {
    for (const model::JobMember& member : attempt.members) {
      if (!member.end) continue;
      const model::MemberUse& one = member.end->use;
      if (one.cpu) all.cpu = all.cpu.value_or(Duration(0)) + *one.cpu;
      keep_largest(all.ram_peak, one.ram_peak);
      keep_largest(all.gpu_memory_peak, one.gpu_memory_peak);
    }
  }
  const auto first =
      std::ranges::find(job.history, model::JobState::kRunning, &model::JobStep::state);
  std::optional<Duration> waited;
  if (first != job.history.end()) waited = std::max(first->at - job.submitted, Duration(0));
  // Thousandths of a GPU for a second are a GPU for a millisecond.
  return {{"waitedMilliseconds", milliseconds(waited)},
          {"ranMilliseconds", milliseconds(std::optional(time_run(job, now)))},
          {"gpuHeldMilliseconds", usage.held},
          {"gpuUsedMilliseconds", usage.used},
          {"gpuMemoryPeakBytes", bytes_or_null(all.gpu_memory_peak)},
          {"cpuMilliseconds", milliseconds(all.cpu)},
          {"ramPeakBytes", bytes_or_null(all.ram_peak)}};
}

json::object stored_event_document(const store::EventRow& event) {
  return {{"number", event.number},
          {"unixMilliseconds", milliseconds(event.at)},
          {"kind", event.kind},
          {"job", event.job ? json::value(event.job->value()) : json::value(nullptr)},
          {"user", safe(event.user)},
          {"object", safe(event.object)},
          {"state", event.state},
          {"reason", safe(event.reason)}};
}

json::object person_document(const model::Person& person) {
  return {{"name", person.name},
          {"role", to_string(person.role)},
          {"uid", person.uid ? json::value(*person.uid) : json::value(nullptr)},
          {"createdUnixMilliseconds", milliseconds(person.created)},
          {"disabled", person.disabled}};
}

json::object token_document(const store::TokenRecord& token) {
  return {{"id", token.id},
          {"user", token.user},
          {"label", safe(token.label)},
          {"createdUnixMilliseconds", milliseconds(token.created)},
          {"expiresUnixMilliseconds", milliseconds(token.expires)},
          {"lastUsedUnixMilliseconds", milliseconds(token.last_used)},
          {"revokedUnixMilliseconds", milliseconds(token.revoked)}};
}

json::object usage_document(const store::UsageSum& sum) {
  return {{"name", sum.name},
          {"jobs", sum.jobs},
          {"heldShareThousandthSeconds", sum.held},
          {"usedShareThousandthSeconds", sum.used},
          {"memoryMebibyteSeconds", sum.memory},
          {"cpuMilliseconds", sum.cpu}};
}

std::string usage_csv(store::UsageBy by, const std::vector<store::UsageSum>& sums) {
  std::string text =
      fmt::format("{},jobs,gpu_hours_held,gpu_hours_used,memory_gib_hours,cpu_hours\n",
                  kUsageBy[static_cast<std::size_t>(by)]);
  for (const store::UsageSum& sum : sums) {
    text += fmt::format("{},{},{},{},{:.3f},{:.3f}\n", csv_cell(sum.name), sum.jobs,
                        gpu_hours(sum.held), gpu_hours(sum.used),
                        static_cast<double>(sum.memory) / 1024.0 / 3600.0,
                        static_cast<double>(sum.cpu) / 3'600'000.0);
  }
  return text;
}

}  // namespace divvy::api
