// Queues that are objects of the cluster: their settings, and what is told in their status.
#include <boost/json.hpp>

#include "base/log.h"
#include "kube/cluster_queue.h"

namespace divvy::kube {
namespace {

namespace json = boost::json;
using namespace std::chrono_literals;

// A status is written at most so often: it changes with every pod that comes and goes.
constexpr Duration kRest = 2s;
constexpr Duration kPauseAfterError = 10s;

}  // namespace

Status ClusterQueue::see_queue(const json::object& object) {
  DIVVY_TRY(queue, read_queue(object));
  const std::string name = queue.object.name;
  const auto known = queue_objects_.find(name);
  if (known == queue_objects_.end()) {
    queue_objects_.emplace(name, std::move(queue));
    queues_changed_ = true;
    return {};
  }
  QueueObject& before = known->second;
  if (before.object.uid == queue.object.uid && before.object.version >= queue.object.version) {
    return {};
  }
  if (before.object.uid != queue.object.uid || before.parent != queue.parent ||
      before.settings != queue.settings || before.problem != queue.problem) {
    queues_changed_ = true;
  }
  before = std::move(queue);
  queues_told_ = false;
  return {};
}

std::vector<std::string> ClusterQueue::queue_paths() const {
  std::vector<std::string> paths;
  for (jobs::QueueReport& report : queue_->queues()) paths.push_back(std::move(report.path));
  return paths;
}

void ClusterQueue::queue_gone(const ObjectFacts& object) {
  const auto known = queue_objects_.find(object.name);
  if (known == queue_objects_.end() || known->second.object.uid != object.uid) return;
  queue_objects_.erase(known);
  queues_changed_ = true;
}

// What holds now. Pods that wait are looked at again: it may be another queue that they are in.
void ClusterQueue::settle_queues() {
  if (!std::exchange(queues_changed_, false)) return;
  queues_told_ = false;
  if (const Status set = set_settings(options_.settings); !set) {
    log_error("queues not changed", {{"reason", set.error().message}});
  }
}

void ClusterQueue::tell_queues(WallTime now) {
  if (queues_told_ || queue_objects_.empty() || now < telling_queues_rests_) return;
  queues_told_ = true;
  telling_queues_rests_ = now + kRest;
  std::map<std::string, jobs::QueueReport> reports;
  for (jobs::QueueReport& report : queue_->queues()) {
    const std::string path = report.path;
    reports.emplace(path, std::move(report));
  }
  for (auto& [name, queue] : queue_objects_) {
    const auto path = composed_.paths.find(name);
    const auto report = path == composed_.paths.end() ? reports.end() : reports.find(path->second);
    const auto problem = composed_.problems.find(name);
    json::object status =
        queue_status(queue, report == reports.end() ? nullptr : &report->second,
                     problem == composed_.problems.end() ? std::string() : problem->second, now);
    if (status == queue.status || queues_busy_.contains(name)) continue;
    queues_busy_.insert(name);
    emit(ActionKind::kWriteQueue, name, fmt::format("/apis/divvy.dev/v1/queues/{}/status", name),
         json::array{
             json::object{{"op", "test"}, {"path", "/metadata/uid"}, {"value", queue.object.uid}},
             json::object{{"op", "add"}, {"path", "/status"}, {"value", status}}});
  }
}

void ClusterQueue::queue_done(const std::string& name, const Result<json::object>& result,
                              WallTime now) {
  queues_busy_.erase(name);
  queues_told_ = false;
  if (result) {
    if (const Status seen = see_queue(*result); !seen) {
      log_warning("queue not understood", {{"queue", name}, {"reason", seen.error().message}});
    }
    return;
  }
  telling_queues_rests_ = now + kPauseAfterError;
  log_debug("status of a queue not written", {{"queue", name}, {"reason", result.error().message}});
}

}  // namespace divvy::kube
