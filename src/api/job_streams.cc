// What goes into members and comes out of them while it is sent: output that is followed, and
// connections.
#include <algorithm>
#include <boost/json.hpp>
#include <limits>
#include <set>

#include "agent/waiting.h"
#include "api/answers.h"
#include "api/handlers.h"
#include "api/member_logs.h"
#include "api/query.h"
#include "api/stream_requests.h"
#include "base/text.h"

namespace divvy::api {
namespace {

using namespace std::chrono_literals;

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

// Whether an attempt that has ended left output, which is kept only so long.
bool has_output(const Parts& parts, const model::Job& job, std::uint32_t attempt) {
  if (attempt != job.attempt || job.members.empty()) return true;  // Nobody knows
  return std::ranges::any_of(job.members, [&](const model::JobMember& member) {
    agent::Agent* const agent = parts.agents.find(member.node);
    if (agent == nullptr) return true;
    const agent::FindOrder order{{job.id, attempt, member.rank}};
    const auto found = agent::ask_and_wait(*agent, order, kPatience);
    return !found || found->report.has_value();
  });
}

}  // namespace

// Sends the output of one attempt, and of the next ones when somebody follows: a job that is
// started again goes on in the same stream.
Answer read_logs(const Call& call, const model::Job& job) {
  DIVVY_RETURN_IF_ERROR(check_has_members(job));
  DIVVY_TRY(wanted, parse_log_query(call.request.query, job));
  const std::uint32_t first = wanted.attempt.value_or(job.attempt);
  if (model::is_finished(job.state) && first > 0 && !has_output(call.parts, job, first)) {
    return err(ErrorCode::kNotFound,
               "the output of job {} was removed: only so much is kept (queue.keep_logs_gib)",
               job.id);
  }
  net::HttpResponse response;
  response.content_type = "text/plain; charset=utf-8";
  response.stream = [&parts = call.parts, id = job.id, wanted = wanted](net::HttpStream& stream) {
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
      const auto now = find_job(parts, id);
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
        agent::Agent* const agent = parts.agents.find(member.node);
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

namespace {

net::HttpResponse upgrade_required() {
  net::HttpResponse response = problem(problem_document(
      426, "upgrade required",
      fmt::format("this is a connection of its own: send \"Upgrade: {}\"", kChannelProtocol)));
  response.headers["upgrade"] = std::string(kChannelProtocol);
  return response;
}

// The machine of the member that the order means; the order then says which one it is.
Result<agent::Agent*> find_member(const Call& call, const model::Job& job,
                                  agent::StreamOrder& order) {
  const auto member = std::ranges::find(job.members, order.key.rank, &model::JobMember::rank);
  if (member == job.members.end()) {
    return err(ErrorCode::kFailedPrecondition, "job {} has no member {} that runs", job.id,
               order.key.rank);
  }
  agent::Agent* const agent = call.parts.agents.find(member->node);
  if (agent == nullptr) {
    return err(ErrorCode::kFailedPrecondition, "the machine {} of this member is not there",
               member->node);
  }
  order.key.job = job.id;
  order.key.attempt = job.attempt;
  return agent;
}

net::HttpResponse upgraded(agent::Agent* agent, agent::StreamOrder order,
                           net::HttpHeaders headers) {
  net::HttpResponse response;
  response.upgrade = [agent, order = std::move(order),
                      headers = std::move(headers)](UniqueFd& socket) {
    auto opened = agent->open_stream(order);
    if (!opened) return problem(opened.error());
    socket = *std::move(opened);
    net::HttpResponse switching{101, "", "", headers};
    switching.headers["upgrade"] = std::string(kChannelProtocol);
    return switching;
  };
  return response;
}

}  // namespace

Answer open_channel(const Call& call, const model::Job& job) {
  DIVVY_RETURN_IF_ERROR(check_has_members(job));
  DIVVY_TRY(order, parse_channel_request(call.request.body));
  order.keep = call.parts.keep_channels;
  DIVVY_TRY(agent, find_member(call, job, order));
  DIVVY_TRY(opened, agent->open_stream(order));
  opened.reset();
  const auto keep = std::chrono::duration_cast<std::chrono::seconds>(order.keep).count();
  return answer(
      201, headed("Channel",
                  {{"channel", order.channel}, {"rank", order.key.rank}, {"keep_seconds", keep}}));
}

Answer join_channel(const Call& call, const model::Job& job) {
  DIVVY_RETURN_IF_ERROR(check_has_members(job));
  DIVVY_TRY(order, parse_join_query(call.request.query));
  DIVVY_TRY(agent, find_member(call, job, order));
  if (to_lower(call.request.header("upgrade")) != kChannelProtocol) {
    // A page is not told why a WebSocket was refused. It asks like this whether there is anything
    // to come back to.
    DIVVY_TRY(joined, agent->open_stream(order));
    joined.reset();
    return upgrade_required();
  }
  net::HttpHeaders headers;
  if (offers_channel(call.request.header("sec-websocket-protocol"))) {
    headers["sec-websocket-protocol"] = kChannelSubprotocol;
  }
  return upgraded(agent, std::move(order), std::move(headers));
}

}  // namespace divvy::api
