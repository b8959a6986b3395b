// Answers about jobs that grow while they are sent: output that is followed, and events.
#include <poll.h>

#include <algorithm>
#include <boost/json.hpp>
#include <limits>
#include <set>

#include "api/job_documents.h"
#include "api/job_routes.h"
#include "api/query.h"
#include "base/text.h"
#include "net/server_sent_events.h"
#include "run/log_reader.h"

namespace divvy::api {
namespace {

using namespace std::chrono_literals;

// Whoever hears nothing for longer may take the server for dead.
constexpr std::chrono::milliseconds kHeartbeat = 15s;
// Where no descriptor says that there is more, and for members that are started meanwhile.
constexpr std::chrono::milliseconds kLookAgain = 500ms;

struct LogQuery {
  run::LogWish wish;
  run::LogStyle style;
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
  DIVVY_CHECK_OK(query.nothing_left());
  // One that waits has no members yet, but somebody may be here already to hear them.
  const std::size_t members = job.members.empty() ? job.spec.members() : job.members.size();
  if (rank && *rank >= members) {
    return err(ErrorCode::kNotFound, "rank: job {} has no member {}; it has {}", job.id, *rank,
               members);
  }
  wanted.wish = {tail, since};
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
    std::error_code code;
    return std::filesystem::is_directory(parts_.folder_of({job.id, attempt, member.rank}), code);
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
    std::optional<run::GangLog> log;
    run::LogWish wish = wanted.wish;  // of the first attempt only: of the others it is all
    const auto send = [&](const std::vector<run::LogLine>& lines) {
      std::string text;
      for (const run::LogLine& line : lines) text += to_text(line, wanted.style);
      return text.empty() || stream.send(text);
    };
    for (;;) {
      const auto now = find(id);
      if (!now) return;
      const std::uint32_t attempt = wanted.attempt.value_or(now->attempt);
      if (attempt != shown || !log) {
        if (log && !send(log->rest())) return;
        log.emplace();
        opened.clear();
        if (shown != 0) wish = {};
        shown = attempt;
      }
      // Members come one after the other, and some may not be there yet.
      for (const model::JobMember& member : now->members) {
        if (opened.contains(member.rank)) continue;
        if (wanted.rank && member.rank != *wanted.rank) continue;
        auto reader = run::LogReader::open(parts_.folder_of({id, attempt, member.rank}), wish);
        if (!reader) continue;
        log->add(member.rank, *std::move(reader));
        opened.insert(member.rank);
      }
      bool any = false;
      while (log) {
        const auto lines = log->read();
        if (lines.empty()) break;
        any = true;
        if (!send(lines)) return;
      }
      const bool over = model::is_finished(now->state) || !wanted.follow;
      if (over && !any) {
        if (log && !send(log->rest())) return;
        return;
      }
      if (any) continue;
      // A descriptor of one of them is enough to wait with; the others are looked at again soon.
      const auto fds = log ? log->watch_fds() : std::vector<int>{};
      if (log) log->clear_watches();
      const int fd = fds.empty() ? -1 : fds.front();
      if (stream.caller().wait_for(fd, kLookAgain) == net::Caller::Wait::kGone) return;
    }
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
