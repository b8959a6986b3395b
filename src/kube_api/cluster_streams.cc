// Output of pods, and what happens to jobs, while it is sent.
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <boost/json.hpp>
#include <condition_variable>
#include <deque>
#include <iterator>
#include <map>
#include <mutex>
#include <set>
#include <system_error>
#include <thread>
#include <utility>

#include "api/gpu_documents.h"
#include "api/job_documents.h"
#include "api/query.h"
#include "base/stable_order.h"
#include "base/unique_fd.h"
#include "kube/json_view.h"
#include "kube/resource_path.h"
#include "kube/time_stamp.h"
#include "kube_api/cluster_api.h"
#include "kube_api/log_lines.h"
#include "net/server_sent_events.h"

namespace divvy::kube_api {
namespace {

namespace json = boost::json;
using namespace std::chrono_literals;

// Of a container whose output cannot be read.
constexpr int kMostTries = 10;
// Of more members at once nobody reads the output line by line; each takes a thread and a
// connection.
constexpr std::size_t kMostFollowed = 256;
// Behind a look that took so long, so many times as long without one.
constexpr int kRest = 4;
// No descriptor, to wait for nothing but the caller with.
constexpr int kNothing = -1;
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

// An API server that is restarted, or asked too much, is back before long.
bool may_work_later(const Error& error) {
  return error.code == ErrorCode::kUnavailable || error.code == ErrorCode::kTimeout ||
         error.code == ErrorCode::kResourceExhausted || error.code == ErrorCode::kInternal;
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

// Reads the output of one container to its end, over any number of connections: servers and proxies
// end them when they like. Of one thread, but for the one that it has.
class ContainerReader {
 public:
  ContainerReader(kube::ApiServer& api, FollowedLines& lines, MemberPod pod)
      : api_(api), lines_(lines), pod_(std::move(pod)), splitter_(pod_.rank) {}

  // Nothing more comes of it: it has been read to its end, or cannot be.
  [[nodiscard]] bool over() const { return !reads_ && (whole_ || given_up_); }
  // Reads on, from where the last connection ended. `runs`: the container did a moment ago.
  void read(const ClusterJob& job, LogQuery wanted, bool runs) {
    if (reads_ || over() || !check_last()) return;
    if (const auto last = splitter_.last()) {
      wanted.since = last;
      wanted.tail.reset();
    }
    splitter_.again();
    reads_ = true;
    lines_.begin();
    try {
      thread_ = std::jthread([this, runs, path = log_path(job, pod_, wanted)](
                                 const std::stop_token& stop) { read_all(path, runs, stop); });
    } catch (const std::system_error& error) {
      reads_ = false;
      lines_.end(splitter_, true);
      give_up(error.what());
    }
  }
  // Its pod is none of the job's any more: another one was made in its stead, or none. What it has
  // written is read as far as the pod is still there. True: nothing more comes.
  bool read_rest(const ClusterJob& job, const LogQuery& wanted) {
    if (reads_) return false;
    // Under the same name there is another one by now, or there is none.
    const bool is_there = (result_ || result_.error().code != ErrorCode::kNotFound) &&
                          std::ranges::find(job.pods, pod_.pod, &MemberPod::pod) == job.pods.end();
    if (is_there) read(job, wanted, false);
    return !is_there || over();
  }

 private:
  // What came of the last connection. False: nothing can come any more.
  bool check_last() {
    if (result_) {
      tries_ = 0;
      return true;
    }
    if (may_work_later(result_.error()) && ++tries_ < kMostTries) return true;
    give_up(result_.error().message);
    return false;
  }
  void give_up(const std::string& why) {
    given_up_ = true;
    lines_.say(splitter_, pod_.rank, "its output cannot be read: " + why);
  }
  void read_all(const std::string& path, bool runs, const std::stop_token& stop) {
    result_ = api_.read_text(
        path, [&](std::string_view piece) { return lines_.add(splitter_, piece, stop); }, stop);
    // Of one that ran the connection may have ended before the output did.
    whole_ = result_.has_value() && !runs;
    lines_.end(splitter_, whole_);
    reads_ = false;
  }

  kube::ApiServer& api_;
  FollowedLines& lines_;
  const MemberPod pod_;
  // Of its thread while it reads.
  LineSplitter splitter_;
  Status result_;
  bool whole_ = false;
  std::atomic<bool> reads_ = false;
  bool given_up_ = false;
  int tries_ = 0;
  std::jthread thread_;  // last: it uses what is above
};

// Wakes whoever waits with a caller when something of a collection changes, or may have.
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

  // From now on: what is there has been looked at.
  Status watch(kube::ApiServer& api, const std::string& path, const std::stop_token& stop) {
    DIVVY_TRY(page, api.get(kube::with_parameter(path, "limit", "1")));
    const std::string version(kube::text_at(page, {"metadata", "resourceVersion"}));
    // Before this version something may have happened that nobody looked at.
    ring();
    std::string from = kube::with_parameter(path, "resourceVersion", version);
    // Of a watch on which nothing comes for minutes the connection is taken for dead.
    from = kube::with_parameter(from, "allowWatchBookmarks", "true");
    return api.watch(
        from,
        [this](const kube::WatchEvent& event) {
          if (event.kind != kube::WatchEvent::Kind::kBookmark) ring();
          return true;
        },
        stop);
  }

  void follow(kube::ApiServer& api, const std::string& path, const std::stop_token& stop) {
    std::mutex mutex;
    std::condition_variable_any pause;
    while (!stop.stop_requested()) {
      const Status watched = watch(api, path, stop);
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

// What was told, of jobs that are there.
using Seen = std::map<model::JobId, std::set<std::string>>;

// What was not told yet of these jobs, oldest first.
std::vector<store::EventRow> news(const std::vector<ClusterJob>& jobs,
                                  const store::EventFilter& filter, Seen& seen) {
  std::vector<store::EventRow> rows;
  Seen still;
  for (const ClusterJob& job : jobs) {
    if (filter.job && job.job.id != *filter.job) continue;
    if (filter.user && job.job.owner != *filter.user) continue;
    if (auto before = seen.extract(job.job.id); !before.empty()) still.insert(std::move(before));
    std::set<std::string>& told = still[job.job.id];
    for (std::size_t i = 0; i < job.job.history.size(); ++i) {
      store::EventRow row = event_of(job, job.job.history[i]);
      const std::string what = fmt::format("{} {} {}", row.state, row.number, i);
      if (!told.insert(what).second || row.number <= filter.after) continue;
      rows.push_back(std::move(row));
    }
  }
  seen = std::move(still);
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
    sort_stably(lines, &LogLine::at);
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
    std::map<std::string, ContainerReader> readers;  // by pod and container
    const auto send_all = [&] {
      std::string text;
      for (const LogLine& line : lines.take()) text += to_text(line, style);
      return text.empty() || stream.send(text);
    };
    bool ended = false;  // the job
    bool gone = false;   // it was deleted, or may not be seen any more
    bool more = false;   // members than are followed
    bool said_more = false;
    auto next = std::chrono::steady_clock::now();
    for (;;) {
      lines.clear();
      if (!send_all()) return;
      // Not for each line: a look is a list of pods.
      if (!gone && std::chrono::steady_clock::now() >= next) {
        const auto now = look_again(job);
        gone = !now && !may_work_later(now.error());
        ended = now && model::is_finished(now->job.state);
        std::set<std::string> there;
        for (std::size_t i = 0; now && i < now->pods.size(); ++i) {
          const MemberPod& pod = now->pods[i];
          const std::string key = pod.uid + "/" + pod.container;
          there.insert(key);
          if (!is_wanted(pod, wanted)) continue;
          if (!readers.contains(key) && readers.size() >= kMostFollowed) {
            more = true;
            continue;
          }
          readers.try_emplace(key, api_, lines, pod).first->second.read(*now, wanted, pod.runs);
        }
        for (auto it = readers.begin(); now && it != readers.end();) {
          const bool left = !there.contains(it->first) && it->second.read_rest(*now, wanted);
          it = left ? readers.erase(it) : std::next(it);
        }
        if (more && !std::exchange(said_more, true) &&
            !stream.send(fmt::format("divvy: the output of {} members is followed, not that of the "
                                     "others; --rank shows that of one\n",
                                     kMostFollowed))) {
          return;
        }
        next = std::chrono::steady_clock::now() + options_.look_again;
      }
      const bool all_read =
          std::ranges::all_of(readers, [](const auto& reader) { return reader.second.over(); });
      if ((gone && lines.readers() == 0) || (ended && all_read)) {
        static_cast<void>(send_all());
        return;
      }
      const auto rest =
          std::chrono::ceil<std::chrono::milliseconds>(next - std::chrono::steady_clock::now());
      const auto wait = gone ? kHeartbeat : std::max(rest, 0ms);
      if (stream.caller().wait_for(lines.fd(), wait) == net::Caller::Wait::kGone) return;
    }
  };
  return response;
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
      const auto began = std::chrono::steady_clock::now();
      const auto now = jobs();
      // Whoever asks again later is told of nothing that happened meanwhile and has an earlier
      // time.
      if (!now && !may_work_later(now.error())) return;
      for (const store::EventRow& row :
           now ? news(*now, filter, seen) : std::vector<store::EventRow>()) {
        const net::ServerSentEvent event{std::to_string(row.number), row.kind,
                                         json::serialize(api::stored_event_document(row))};
        if (!stream.send(net::write_event(event))) return;
      }
      // A look is a list of everything, and something changes all the time in a large cluster.
      const auto took = std::chrono::steady_clock::now() - began;
      const auto rest = std::chrono::ceil<std::chrono::milliseconds>(kRest * took);
      if (stream.caller().wait_for(kNothing, now ? rest : options_.look_again) ==
          net::Caller::Wait::kGone) {
        return;
      }
      if (!now) continue;
      for (;;) {
        const auto waited = stream.caller().wait_for(watcher.fd(), kHeartbeat);
        if (waited == net::Caller::Wait::kGone) return;
        if (waited == net::Caller::Wait::kReady) break;
        if (!stream.send(net::write_heartbeat())) return;
      }
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
