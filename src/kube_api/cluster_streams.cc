// Output of pods, and what happens to jobs, while it is sent.
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <boost/json.hpp>
#include <condition_variable>
#include <deque>
#include <map>
#include <mutex>
#include <set>
#include <thread>

#include "api/gpu_documents.h"
#include "api/job_documents.h"
#include "api/query.h"
#include "base/unique_fd.h"
#include "kube/json_view.h"
#include "kube/resource_path.h"
#include "kube/time_stamp.h"
#include "kube_api/cluster_api.h"
#include "kube_api/log_lines.h"
#include "kube_api/stable_order.h"
#include "net/server_sent_events.h"

namespace divvy::kube_api {
namespace {

namespace json = boost::json;
using namespace std::chrono_literals;

// For pods that are started meanwhile, and for the end of the job.
constexpr std::chrono::milliseconds kLookAgain = 1s;
// Whoever hears nothing for longer may take it for dead.
constexpr std::chrono::milliseconds kHeartbeat = 15s;

struct LogQuery {
  std::optional<std::uint64_t> tail;
  std::optional<WallTime> since;
  std::optional<std::uint64_t> rank;
  bool follow = false;
  bool timestamps = false;
};

Result<LogQuery> parse_log_query(const std::string& text, const ClusterJob& job) {
  DIVVY_TRY(query, api::Query::parse(text));
  DIVVY_TRY(tail, query.number("tail"));
  DIVVY_TRY(since, query.time("since"));
  DIVVY_TRY(rank, query.number("rank"));
  DIVVY_TRY(attempt, query.number("attempt"));
  DIVVY_TRY(follow, query.flag("follow"));
  DIVVY_TRY(timestamps, query.flag("timestamps"));
  DIVVY_RETURN_IF_ERROR(query.nothing_left());
  const std::size_t members = std::max<std::size_t>(job.pods.size(), job.job.spec.members());
  if (rank && *rank >= members) {
    return err(ErrorCode::kNotFound, "rank: job {} has no member {}; it has {}", job.job.id, *rank,
               members);
  }
  if (attempt && *attempt != job.job.attempt) {
    return err(ErrorCode::kUnsupported,
               "attempt: on a cluster only the last one has its output; pods of earlier ones, as "
               "far as they are there: {}",
               fmt::join(job.pod_names, ", "));
  }
  return LogQuery{tail, since, rank, follow, timestamps};
}

std::string log_path(const ClusterJob& job, const MemberPod& pod, const LogQuery& wanted) {
  std::string path = fmt::format("/api/v1/namespaces/{}/pods/{}/log?timestamps=true",
                                 kube::percent_encode(job.space()), kube::percent_encode(pod.pod));
  if (!pod.container.empty()) path = kube::with_parameter(path, "container", pod.container);
  if (wanted.follow) path = kube::with_parameter(path, "follow", "true");
  if (wanted.tail) path = kube::with_parameter(path, "tailLines", std::to_string(*wanted.tail));
  if (wanted.since) path = kube::with_parameter(path, "sinceTime", kube::time_stamp(*wanted.since));
  return path;
}

bool is_wanted(const MemberPod& pod, const LogQuery& wanted) {
  return pod.has_output && (!wanted.rank || pod.rank == *wanted.rank);
}

// Wakes whoever waits with a caller when something of a collection changes.
class Watcher {
 public:
  Watcher(kube::ApiServer& api, const std::vector<std::string>& paths)
      : bell_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
    for (const std::string& path : paths) {
      threads_.emplace_back(
          [this, &api, path](const std::stop_token& stop) { follow(api, path, stop); });
    }
  }

  [[nodiscard]] int fd() const { return bell_.get(); }
  // Before one looks.
  void clear() const {
    std::uint64_t count = 0;
    (void)!::read(bell_.get(), &count, sizeof count);
  }

 private:
  void ring() const {
    const std::uint64_t one = 1;
    (void)!::write(bell_.get(), &one, sizeof one);
  }

  void follow(kube::ApiServer& api, const std::string& path, const std::stop_token& stop) {
    std::mutex mutex;
    std::condition_variable_any pause;
    while (!stop.stop_requested()) {
      const Status watched = api.watch(
          path,
          [this](const kube::WatchEvent&) {
            ring();
            return true;
          },
          stop);
      ring();
      std::unique_lock lock(mutex);
      (void)pause.wait_for(lock, stop, watched ? 100ms : 2000ms, [] { return false; });
    }
  }

  UniqueFd bell_;
  std::vector<std::jthread> threads_;
};

store::EventRow event_of(const ClusterJob& job, const model::JobStep& step) {
  store::EventRow row;
  row.at = step.at;
  row.number = static_cast<std::uint64_t>(
      std::chrono::floor<std::chrono::milliseconds>(step.at.time_since_epoch()).count());
  row.kind = "job";
  row.job = job.job.id;
  row.user = job.job.owner;
  row.object = job.job.spec.name;
  row.state = to_string(step.state);
  row.reason = step.reason;
  return row;
}

using Seen = std::set<std::pair<std::uint64_t, std::string>>;

// What was not told yet of these jobs, oldest first.
std::vector<store::EventRow> news(const std::vector<ClusterJob>& jobs,
                                  const store::EventFilter& filter, Seen& seen) {
  std::vector<store::EventRow> rows;
  for (const ClusterJob& job : jobs) {
    if (filter.job && job.job.id != *filter.job) continue;
    if (filter.user && job.job.owner != *filter.user) continue;
    for (std::size_t i = 0; i < job.job.history.size(); ++i) {
      store::EventRow row = event_of(job, job.job.history[i]);
      const std::string what = fmt::format("{} {} {}", row.state, row.number, i);
      if (!seen.emplace(job.job.id.value(), what).second || row.number <= filter.after) continue;
      rows.push_back(std::move(row));
    }
  }
  sort_stably(rows, &store::EventRow::number);
  return rows;
}

}  // namespace

ClusterApi::Answer ClusterApi::read_logs(const Asked& asked, const ClusterJob& job) {
  DIVVY_TRY(wanted, parse_log_query(asked.request.query, job));
  const LogStyle style{wanted.timestamps, !wanted.rank && job.job.spec.members() > 1};
  net::HttpResponse response;
  response.content_type = "text/plain; charset=utf-8";
  if (!wanted.follow) {
    std::vector<LogLine> lines;
    for (const MemberPod& pod : job.pods) {
      if (!is_wanted(pod, wanted)) continue;
      LineSplitter splitter(pod.rank);
      DIVVY_RETURN_IF_ERROR(api_.read_text(log_path(job, pod, wanted),
                                           [&](std::string_view piece) {
                                             splitter.take(piece, lines);
                                             return true;
                                           },
                                           {}));
      splitter.finish(lines);
    }
    sort_stably(lines, &LogLine::time);
    for (const LogLine& line : lines) response.body += to_text(line, style);
    return response;
  }
  // Who may not see it is told before anything else.
  if (const auto first = std::ranges::find_if(
          job.pods, [&](const MemberPod& pod) { return is_wanted(pod, wanted); });
      first != job.pods.end()) {
    LogQuery probe;
    probe.tail = 0;
    const Status allowed =
        api_.read_text(log_path(job, *first, probe), [](std::string_view) { return true; }, {});
    if (!allowed && allowed.error().code == ErrorCode::kPermissionDenied) {
      return err(allowed.error());
    }
  }
  response.stream = [this, job = job, wanted = wanted, style](net::HttpStream& stream) {
    FollowedLines lines;
    std::map<std::string, std::jthread> readers;  // by pod and container
    const auto send_all = [&] {
      std::string text;
      for (const LogLine& line : lines.take()) text += to_text(line, style);
      return text.empty() || stream.send(text);
    };
    for (;;) {
      lines.clear();
      const auto now = look_again(job);
      // A Job that was deleted, and its pods.
      const bool over = !now || model::is_finished(now->job.state);
      for (std::size_t i = 0; now && i < now->pods.size(); ++i) {
        const MemberPod& pod = now->pods[i];
        const std::string key = pod.uid + "/" + pod.container;
        if (!is_wanted(pod, wanted) || readers.contains(key)) continue;
        lines.begin();
        readers.emplace(key, [this, &lines, rank = pod.rank,
                              path = log_path(*now, pod, wanted)](const std::stop_token& stop) {
          LineSplitter splitter(rank);
          const Status read = api_.read_text(
              path, [&](std::string_view piece) { return lines.add(splitter, piece, stop); }, stop);
          lines.end(splitter, read);
        });
      }
      while (over && lines.readers() > 0) {
        if (!send_all()) return;
        if (stream.caller().wait_for(lines.fd(), kHeartbeat) == net::Caller::Wait::kGone) return;
        lines.clear();
      }
      if (!send_all() || over) return;
      if (stream.caller().wait_for(lines.fd(), kLookAgain) == net::Caller::Wait::kGone) return;
    }
  };
  return response;
}

// Not yet: it is another protocol, and kubectl speaks it.
ClusterApi::Answer ClusterApi::open_channel(const Asked& /*asked*/, const ClusterJob& job) {
  const auto member = std::ranges::find_if(job.pods, &MemberPod::runs);
  const bool runs = member != job.pods.end();
  return err(ErrorCode::kUnsupported,
             "exec, attach, cp, port-forward and ssh do not go into pods yet; kubectl does: kubectl -n {} exec -it {} "
             "-c {} -- COMMAND",
             job.space(), runs ? member->pod : "POD", runs ? member->container : "CONTAINER");
}

ClusterApi::Answer ClusterApi::watch_jobs(const Asked& asked) {
  DIVVY_TRY(wanted, api::parse_watch_query(asked.request.query));
  store::EventFilter filter = wanted.filter;
  if (const auto last = asked.request.header("last-event-id"); !last.empty()) {
    DIVVY_TRY(header, api::Query::parse("after=" + std::string(last)));
    DIVVY_TRY(after, header.number("after"));
    filter.after = after.value_or(filter.after);
  }
  DIVVY_TRY(before, jobs());
  Seen seen;
  if (wanted.from_now) static_cast<void>(news(before, filter, seen));
  // The same pods that are listed.
  const bool everywhere = api_.get("/api/v1/pods?limit=1").has_value();
  const std::string space =
      everywhere ? "" : "namespaces/" + kube::percent_encode(options_.space) + "/";
  std::vector<std::string> paths{fmt::format("/api/v1/{}pods", space),
                                 fmt::format("/apis/batch/v1/{}jobs", space)};
  net::HttpResponse response;
  response.content_type = std::string(net::kEventStream);
  response.headers["cache-control"] = "no-store";
  response.stream = [this, filter, seen = std::move(seen), paths = std::move(paths),
                     from_now = wanted.from_now](net::HttpStream& stream) mutable {
    if (from_now && !stream.send(net::write_heartbeat())) return;
    const Watcher watcher(api_, paths);
    for (;;) {
      watcher.clear();
      const auto now = jobs();
      if (!now) return;
      for (const store::EventRow& row : news(*now, filter, seen)) {
        const net::ServerSentEvent event{std::to_string(row.number), row.kind,
                                         json::serialize(api::stored_event_document(row))};
        if (!stream.send(net::write_event(event))) return;
      }
      const auto waited = stream.caller().wait_for(watcher.fd(), kHeartbeat);
      if (waited == net::Caller::Wait::kGone) return;
      if (waited == net::Caller::Wait::kTimeout && !stream.send(net::write_heartbeat())) return;
    }
  };
  return response;
}

// What the controller told of pods.
ClusterApi::Answer ClusterApi::list_events(const Asked& asked) {
  DIVVY_TRY(wanted, api::parse_events_query(asked.request.query));
  DIVVY_TRY(events, list("/api/v1", "events",
                         "fieldSelector=" +
                             kube::percent_encode("reportingComponent=divvy.dev/controller")));
  std::vector<store::EventRow> rows;
  std::uint64_t last = wanted.since;
  for (const json::object& event : events) {
    const auto at = kube::read_time_stamp(kube::text_at(event, {"lastTimestamp"}));
    if (!at) continue;
    store::EventRow row;
    row.at = *at;
    row.number = static_cast<std::uint64_t>(
        std::chrono::floor<std::chrono::milliseconds>(at->time_since_epoch()).count());
    last = std::max(last, row.number);
    if (row.number <= wanted.since) continue;
    row.kind = "pod";
    row.tenant = fmt::format("{}/{}", kube::text_at(event, {"involvedObject", "namespace"}),
                             kube::text_at(event, {"involvedObject", "name"}));
    row.state = kube::text_at(event, {"reason"});
    row.reason = kube::text_at(event, {"message"});
    rows.push_back(std::move(row));
  }
  sort_stably(rows, &store::EventRow::number);
  json::array items;
  for (const store::EventRow& row : rows) items.push_back(api::event_document(row));
  return api::answer(200, api::headed("EventList", {{"last", last}, {"items", std::move(items)}}));
}

}  // namespace divvy::kube_api
