// Answers about jobs that grow while they are sent: output that is followed, and events.
#include <algorithm>
#include <boost/json.hpp>
#include <limits>
#include <set>

#include "agent/waiting.h"
#include "api/answers.h"
#include "api/job_documents.h"
#include "api/job_routes.h"
#include "api/member_logs.h"
#include "api/query.h"
#include "api/stream_requests.h"
#include "base/text.h"
#include "net/server_sent_events.h"

namespace divvy::api {
namespace {

using namespace std::chrono_literals;

// Whoever hears nothing for longer may take the server for dead.
constexpr std::chrono::milliseconds kHeartbeat = 15s;
// For members that are started meanwhile, and for the end of the job.
constexpr std::chrono::milliseconds kLookAgain = 500ms;
// For a machine to answer.
constexpr std::chrono::seconds kPatience{10};

struct LogQuery {
  std::optional<std::uint64_t> tail;
  std::optional<WallTime> since;
  LogStyle style;
  std::optional<std::uint32_t> rank;
  std::optional<std::uint32_t> attempt;
  bool follow = false;
};

Result<LogQuery> parse_log_query(const std::string& text, const model::Job& job) {
  DIVVY_TRY(query, Query::parse(text));
  LogQuery wanted;
  DIVVY_TRY(tail, query.number("tail"));
  DIVVY_TRY(since, query.time("since"));
  DIVVY_TRY(rank, query.number("rank"));
  DIVVY_TRY(attempt, query.number("attempt"));
  DIVVY_TRY(follow, query.flag("follow"));
  DIVVY_TRY(timestamps, query.flag("timestamps"));
  DIVVY_RETURN_IF_ERROR(query.nothing_left());
  // One that waits has no members yet, but somebody may be here already to hear them.
  const std::size_t members = job.members.empty() ? job.spec.members() : job.members.size();
  if (rank && *rank >= members) {
    return err(ErrorCode::kNotFound, "rank: job {} has no member {}; it has {}", job.id, *rank,
               members);
  }
  wanted.tail = tail;
  wanted.since = since;
  if (rank) wanted.rank = static_cast<std::uint32_t>(*rank);
  if (attempt) {
    wanted.attempt = static_cast<std::uint32_t>(
        std::min<std::uint64_t>(*attempt, std::numeric_limits<std::uint32_t>::max()));
  }
  wanted.style = {timestamps, !rank && members > 1};
  wanted.follow = follow;
  return wanted;
}

}  // namespace

bool JobRoutes::has_output(const model::Job& job, std::uint32_t attempt) const {
  if (attempt != job.attempt || job.members.empty()) return true;  // Nobody knows
  return std::ranges::any_of(job.members, [&](const model::JobMember& member) {
    agent::Agent* const agent = parts_.agents.find(member.node);
    if (agent == nullptr) return true;
    const agent::FindOrder order{{job.id, attempt, member.rank}};
    const auto found = agent::ask_and_wait(*agent, order, kPatience);
    return !found || found->report.has_value();
  });
}

// Sends the output of one attempt, and of the next ones when somebody follows: a job that is
// started again goes on in the same stream.
JobRoutes::Answer JobRoutes::logs(const model::Job& job, const std::string& query) const {
  DIVVY_TRY(wanted, parse_log_query(query, job));
  const std::uint32_t first = wanted.attempt.value_or(job.attempt);
  if (model::is_finished(job.state) && first > 0 && !has_output(job, first)) {
    return err(ErrorCode::kNotFound,
               "the output of job {} was removed: only so much is kept (queue.keep_logs_gib)",
               job.id);
  }
  net::HttpResponse response;
  response.content_type = "text/plain; charset=utf-8";
  response.stream = [this, id = job.id, wanted = wanted](net::HttpStream& stream) {
    std::uint32_t shown = 0;
    std::set<std::uint32_t> opened;  // ranks of the attempt that is shown
    std::optional<MemberLogs> logs;
    // Of the first attempt only: of the others it is all.
    agent::StreamOrder order;
    order.tail = wanted.tail;
    order.since = wanted.since;
    order.follow = wanted.follow;
    bool any = false;
    // Everything that there is now; false: nobody listens.
    const auto send_all = [&] {
      any = false;
      for (;;) {
        std::string text;
        for (const MemberLine& line : logs->read()) text += to_text(line, wanted.style);
        if (text.empty()) return true;
        any = true;
        if (!stream.send(text)) return false;
      }
    };
    for (;;) {
      const auto now = find(id);
      if (!now) return;
      const std::uint32_t attempt = wanted.attempt.value_or(now->attempt);
      if (attempt != shown || !logs) {
        if (logs) {
          logs->finish();
          if (!send_all()) return;
        }
        logs.emplace();
        opened.clear();
        if (shown != 0) {
          order.tail.reset();
          order.since.reset();
        }
        shown = attempt;
      }
      // Members come one after the other, and some may not be there yet.
      for (const model::JobMember& member : now->members) {
        if (opened.contains(member.rank)) continue;
        if (wanted.rank && member.rank != *wanted.rank) continue;
        agent::Agent* const agent = parts_.agents.find(member.node);
        if (agent == nullptr) continue;
        order.key = {id, attempt, member.rank};
        auto output = agent->open_stream(order);
        if (!output) continue;
        logs->add(member.rank, *std::move(output));
        opened.insert(member.rank);
      }
      // What is written before the end is there when the end is known.
      const bool over = model::is_finished(now->state) || !wanted.follow;
      if (over) logs->finish();
      if (!send_all() || over) return;
      if (any) continue;
      if (stream.caller().wait_for(logs->fd(), kLookAgain) == net::Caller::Wait::kGone) return;
    }
  };
  return response;
}

JobRoutes::Answer JobRoutes::open_stream(const model::Job& job,
                                         const net::HttpRequest& request) const {
  DIVVY_TRY(order, parse_stream_request(request.body));
  if (to_lower(request.header("upgrade")) != kStreamProtocol) {
    net::HttpResponse response = problem(problem_document(
        426, "upgrade required",
        fmt::format("this is a connection of its own: send \"Upgrade: {}\"", kStreamProtocol)));
    response.headers["upgrade"] = std::string(kStreamProtocol);
    return response;
  }
  const auto member = std::ranges::find(job.members, order.key.rank, &model::JobMember::rank);
  if (member == job.members.end()) {
    return err(ErrorCode::kFailedPrecondition, "job {} has no member {} that runs", job.id,
               order.key.rank);
  }
  agent::Agent* const agent = parts_.agents.find(member->node);
  if (agent == nullptr) {
    return err(ErrorCode::kFailedPrecondition, "the machine {} of this member is not there",
               member->node);
  }
  order.key.job = job.id;
  order.key.attempt = job.attempt;
  net::HttpResponse response;
  response.upgrade = [agent, order = std::move(order)](UniqueFd& socket) {
    auto opened = agent->open_stream(order);
    if (!opened) return problem(opened.error());
    socket = *std::move(opened);
    net::HttpResponse switching{101, "", ""};
    switching.headers["upgrade"] = std::string(kStreamProtocol);
    return switching;
  };
  return response;
}

JobRoutes::Answer JobRoutes::watch(const net::HttpRequest& request) const {
  // ?from=now: nothing of what has been, and a sign of life at once, after which whoever watches
  // can look at the jobs and miss nothing.
  bool from_now = false;
  std::string query;
  for (const std::string_view piece : split(request.query, '&')) {
    if (piece == "from=now") {
      from_now = true;
    } else if (!piece.empty()) {
      query += (query.empty() ? "" : "&") + std::string(piece);
    }
  }
  DIVVY_TRY(filter, parse_stored_events_query(query));
  if (from_now) {
    DIVVY_TRY(last, parts_.database.read([](store::Connection& connection) {
      return store::EventTable(connection).last();
    }));
    filter.after = last;
  }
  if (const auto last = request.header("last-event-id"); !last.empty()) {
    DIVVY_TRY(header, Query::parse("after=" + std::string(last)));
    DIVVY_TRY(after, header.number("after"));
    filter.after = after.value_or(filter.after);
  }
  net::HttpResponse response;
  response.content_type = std::string(net::kEventStream);
  response.headers["cache-control"] = "no-store";
  response.stream = [this, filter, from_now](net::HttpStream& stream) mutable {
    if (from_now && !stream.send(net::write_heartbeat())) return;
    const EventBell::Listener listener(parts_.bell);
    for (;;) {
      listener.clear();
      const auto events = parts_.database.read([&](store::Connection& connection) {
        return store::EventTable(connection).list(filter);
      });
      if (!events) return;
      for (const store::EventRow& event : *events) {
        const net::ServerSentEvent sent{std::to_string(event.number), event.kind,
                                        boost::json::serialize(stored_event_document(event))};
        if (!stream.send(net::write_event(sent))) return;
        filter.after = event.number;
      }
      if (events->size() == filter.limit) continue;
      const auto waited = stream.caller().wait_for(listener.fd(), kHeartbeat);
      if (waited == net::Caller::Wait::kGone) return;
      if (waited == net::Caller::Wait::kTimeout && !stream.send(net::write_heartbeat())) return;
    }
  };
  return response;
}

}  // namespace divvy::api
