#include "kube/controller.h"

#include <algorithm>
#include <boost/json.hpp>

#include "base/log.h"
#include "kube/json_view.h"
#include "kube/namespace_policy.h"
#include "kube/object_names.h"

namespace divvy::kube {
namespace {

namespace json = boost::json;
using namespace std::chrono_literals;

// So many times the length of a decision are for whoever asks, and for more to come together.
constexpr int kRest = 4;
constexpr Duration kLongestRest = 200ms;

void drop_managed_fields(json::object& object) {
  json::value* const metadata = object.if_contains("metadata");
  if (metadata != nullptr && metadata->is_object()) metadata->get_object().erase("managedFields");
}

// Pods of others are most of what there is in a cluster, and nobody asks for them.
void trim_pod(json::object& pod) {
  drop_managed_fields(pod);
  const auto ours = read_pod(pod);
  if (!ours || *ours) return;
  const bool in_group = read_named_group(pod).has_value();
  json::object metadata;
  for (const char* const field : {"namespace", "name", "uid", "resourceVersion"}) {
    const std::string_view text = text_at(pod, {"metadata", field});
    if (!text.empty()) metadata[field] = text;
  }
  json::object spec;
  if (in_group) {
    metadata["labels"] = object_at(pod, {"metadata", "labels"});
    metadata["annotations"] = object_at(pod, {"metadata", "annotations"});
    for (const char* const field : {"schedulingGroup", "workloadRef"}) {
      const json::object& group = object_at(pod, {"spec", field});
      if (!group.empty()) spec[field] = group;
    }
  }
  pod = {{"metadata", std::move(metadata)}};
  if (!spec.empty()) pod["spec"] = std::move(spec);
}

void trim_node(json::object& node) {
  drop_managed_fields(node);
  json::value* const status = node.if_contains("status");
  if (status != nullptr && status->is_object()) status->get_object().erase("images");
}

constexpr std::array kPaths{
    std::pair(ObjectKind::kPod, "/api/v1/pods"),
    std::pair(ObjectKind::kClaim, "/apis/resource.k8s.io/v1/resourceclaims"),
    std::pair(ObjectKind::kGpuNode, "/apis/divvy.dev/v1/gpunodes"),
    std::pair(ObjectKind::kNode, "/api/v1/nodes"),
    std::pair(ObjectKind::kNamespace, "/api/v1/namespaces"),
    std::pair(ObjectKind::kQueue, "/apis/divvy.dev/v1/queues"),
    std::pair(ObjectKind::kPolicy, "/apis/divvy.dev/v1/policies"),
    std::pair(ObjectKind::kCapacityPlan, "/apis/divvy.dev/v1/capacityplans"),
};

}  // namespace

Controller::Controller(ApiServer& reading, ApiServer& writing, Clock& clock, Options options)
    : writing_(writing), reading_(reading), clock_(clock), options_(std::move(options)) {}

Result<std::unique_ptr<Controller>> Controller::create(ApiServer& reading, ApiServer& writing,
                                                       Clock& clock, Options options) {
  DIVVY_RETURN_IF_ERROR(jobs::check(options.queue.settings));
  std::unique_ptr<Controller> made(new Controller(reading, writing, clock, std::move(options)));
  Controller* const self = made.get();
  for (unsigned i = 0; i < std::max(self->options_.writers, 1U); ++i) {
    self->writers_.emplace_back([self] { self->write(); });
  }
  for (const auto& [kind, path] : kPaths) {
    if (kind == ObjectKind::kClaim && !self->options_.claims) continue;
    if (kind == ObjectKind::kQueue && !self->options_.queues) continue;
    if (kind == ObjectKind::kPolicy && !self->options_.policies) continue;
    if (kind == ObjectKind::kCapacityPlan && !self->options_.capacity_plans) continue;
    MirrorOptions mirror{.path = path};
    mirror.trim = kind == ObjectKind::kPod    ? trim_pod
                  : kind == ObjectKind::kNode ? trim_node
                                              : drop_managed_fields;
    self->follow(kind, std::move(mirror));
  }
  self->thread_ = std::thread([self] { self->run(); });
  self->election_ = std::make_unique<LeaderElection>(
      reading, clock, self->options_.lease,
      [self] {
        self->wanted_ = true;
        self->ring();
      },
      [self] {
        // Nothing is written from here on, and what was begun has ended.
        self->wanted_ = false;
        self->stop_writing();
        self->ring();
      });
  self->elected_ = self->election_.get();
  return made;
}

Controller::~Controller() {
  election_.reset();
  stopping_ = true;
  ring();
  if (thread_.joinable()) thread_.join();
  for (auto& mirror : mirrors_) mirror.reset();
  {
    const std::lock_guard lock(write_mutex_);
    writers_end_ = true;
  }
  write_changed_.notify_all();
  for (std::thread& writer : writers_) writer.join();
}

void Controller::follow(ObjectKind kind, MirrorOptions options) {
  mirrors_.at(static_cast<std::size_t>(kind)) = std::make_unique<Mirror>(
      reading_, clock_, std::move(options),
      [this, kind](const ObjectChange& change) {
        {
          const std::lock_guard lock(inbox_mutex_);
          if (!collecting_) return;
          changes_.push_back({kind, change});
        }
        ring();
      },
      [this] { ring(); });
}

bool Controller::synced() const {
  return std::ranges::all_of(
      mirrors_, [](const auto& mirror) { return mirror == nullptr || mirror->synced(); });
}

void Controller::ring() {
  rung_ = true;
  clock_.wake();
}

// --- The queue ---

void Controller::run() {
  while (!stopping_) {
    rung_ = false;
    step();
    TimePoint due = TimePoint::max();
    if (leads_) {
      const std::lock_guard lock(queue_mutex_);
      const WallTime now = clock_.wall_now();
      if (const auto next = queue_->next(now)) due = clock_.now() + (*next - now);
      due = std::max(due, rests_until_);
    }
    clock_.wait_until(due, [this] { return stopping_ || rung_; });
    // What comes in a burst is decided together.
    if (leads_ && wanted_) {
      clock_.wait_until(rests_until_, [this] { return stopping_ || !wanted_; });
    }
  }
  end_term();
}

bool Controller::begin_term() {
  if (!synced()) return false;
  ClusterQueue::Options options = options_.queue;
  options.capacity_plans = options_.capacity_plans;
  {
    const std::lock_guard lock(queue_mutex_);
    ++term_;
    // No two leaders name devices alike.
    options.capacity_plans = options_.capacity_plans;
    options.seed ^= term_ * 0x9e3779b97f4a7c15U;
  }
  auto made = ClusterQueue::create(std::move(options));
  if (!made) {
    log_error("the queue cannot begin", {{"reason", made.error().message}});
    return false;
  }
  {
    const std::lock_guard lock(inbox_mutex_);
    collecting_ = true;
    changes_.clear();
    answers_.clear();
  }
  std::size_t objects = 0;
  {
    const std::lock_guard lock(queue_mutex_);
    queue_ = *std::move(made);
    for (const auto& [kind, path] : kPaths) {
      const auto& mirror = mirrors_.at(static_cast<std::size_t>(kind));
      if (mirror == nullptr) continue;
      for (const ObjectPtr& object : mirror->all()) {
        tell(kind, {nullptr, object});
        ++objects;
      }
    }
  }
  {
    const std::lock_guard lock(write_mutex_);
    may_write_ = true;
  }
  // It may have gone while the objects were read.
  if (!wanted_) stop_writing();
  leads_ = true;
  log_info("this controller leads", {{"objects", objects}});
  return true;
}

void Controller::end_term() {
  if (!leads_.exchange(false)) return;
  stop_writing();
  {
    const std::lock_guard lock(inbox_mutex_);
    collecting_ = false;
    changes_ = {};
    answers_ = {};
  }
  const std::lock_guard lock(queue_mutex_);
  queue_.reset();
  log_info("this controller does not lead any more");
}

void Controller::tell(ObjectKind kind, const ObjectChange& change) {
  if (change.after == nullptr) {
    queue_->gone(kind, *change.before);
    return;
  }
  const Status seen = queue_->see(kind, *change.after);
  if (seen) return;
  log_warning("object not understood",
              {{"name", text_at(*change.after, {"metadata", "name"})},
               {"namespace", text_at(*change.after, {"metadata", "namespace"})},
               {"reason", seen.error().message}});
}

void Controller::step() {
  if (leads_ && !wanted_) end_term();
  if (!leads_ && (!wanted_ || !begin_term())) return;
  std::vector<Change> changes;
  std::vector<Answer> answers;
  {
    const std::lock_guard lock(inbox_mutex_);
    changes = std::exchange(changes_, {});
    answers = std::exchange(answers_, {});
  }
  std::vector<Action> actions;
  const TimePoint begin = clock_.now();
  {
    const std::lock_guard lock(queue_mutex_);
    for (const Change& change : changes) tell(change.kind, change.change);
    const WallTime now = clock_.wall_now();
    for (const Answer& answer : answers) {
      if (answer.term == term_) queue_->done(answer.number, answer.result, now);
    }
    actions = queue_->decide(now);
  }
  const TimePoint end = clock_.now();
  decisions_.record(end - begin);
  rests_until_ = end + std::min<Duration>(kRest * (end - begin), kLongestRest);
  if (actions.empty()) return;
  {
    const std::lock_guard lock(write_mutex_);
    for (Action& action : actions) {
      std::deque<Job>& line = is_urgent(action.kind) ? urgent_ : telling_;
      line.push_back({term_, std::move(action)});
    }
  }
  write_changed_.notify_all();
}

// --- Writing ---

void Controller::write() {
  std::unique_lock lock(write_mutex_);
  for (;;) {
    write_changed_.wait(lock, [this] {
      return writers_end_ || (may_write_ && (!urgent_.empty() || !telling_.empty()));
    });
    if (writers_end_) return;
    std::deque<Job>& line = urgent_.empty() ? telling_ : urgent_;
    const Job job = std::move(line.front());
    line.pop_front();
    ++writing_now_;
    lock.unlock();
    auto result = write_as_leader(job.action);
    ++written_;
    if (!result) {
      ++failed_;
      log_debug("not written", {{"action", to_string(job.action.kind)},
                                {"path", job.action.path},
                                {"reason", result.error().message}});
    }
    bool wanted = false;
    {
      const std::lock_guard inbox(inbox_mutex_);
      wanted = collecting_;
      if (wanted) answers_.push_back({job.term, job.action.number, std::move(result)});
    }
    if (wanted) ring();
    lock.lock();
    --writing_now_;
    write_changed_.notify_all();
  }
}

// A process that stood still (a signal, a virtual machine that was paused) comes back with what it
// wanted to write, before it is told that its lease has ended meanwhile.
Result<json::object> Controller::write_as_leader(const Action& action) const {
  const LeaderElection* const election = elected_;
  if (election != nullptr && !election->is_leader()) {
    return err(ErrorCode::kUnavailable, "the lease has ended");
  }
  return carry_out(writing_, action);
}

void Controller::stop_writing() {
  std::unique_lock lock(write_mutex_);
  may_write_ = false;
  urgent_.clear();
  telling_.clear();
  write_changed_.wait(lock, [this] { return writing_now_ == 0; });
}

// --- Questions ---

Status Controller::set_settings(jobs::Settings settings) {
  DIVVY_RETURN_IF_ERROR(jobs::check(settings));
  {
    const std::lock_guard lock(queue_mutex_);
    options_.queue.settings = settings;
    if (queue_ != nullptr) DIVVY_RETURN_IF_ERROR(queue_->set_settings(std::move(settings)));
  }
  ring();
  return {};
}

Result<std::optional<PodReport>> Controller::explain(const std::string& space,
                                                     const std::string& name) {
  const std::lock_guard lock(queue_mutex_);
  if (queue_ == nullptr) {
    return err(ErrorCode::kUnavailable,
               "this replica of the controller does not lead; ask again, and another may answer");
  }
  return queue_->explain(space, name, clock_.wall_now());
}

ObjectPtr Controller::find_namespace(std::string_view name) const {
  return mirrors_.at(static_cast<std::size_t>(ObjectKind::kNamespace))->find("", std::string(name));
}

Result<DialectPolicy> Controller::dialects_for(std::string_view name,
                                               const DialectPolicy& usual) const {
  // Whoever guesses lets pods past what is denied to all.
  if (!await_policies(0ms)) {
    return err(ErrorCode::kUnavailable,
               "the controller was started a moment ago and has not read yet how the pods of "
               "namespace {} are to be understood; try again",
               name);
  }
  const ObjectPtr found = find_namespace(name);
  // One that was made a moment ago has not been heard of, and a policy may name it.
  const json::object unheard{{"metadata", json::object{{"name", name}}}};
  const json::object* const space = found == nullptr ? &unheard : found.get();
  DialectPolicy policy = usual;
  if (const auto& mirror = mirrors_.at(static_cast<std::size_t>(ObjectKind::kPolicy))) {
    PolicyObjects policies;
    for (const ObjectPtr& object : mirror->all()) {
      auto read = read_policy(*object);
      if (!read) continue;
      const std::string key = read->object.name;
      policies.emplace(key, *std::move(read));
    }
    if (const PolicyObject* const holds = find_policy(policies, *space)) {
      policy = holds->over(std::move(policy));
    }
  }
  return namespace_policy(*space, std::move(policy));
}

bool Controller::await_policies(std::chrono::milliseconds most) const {
  return std::ranges::all_of(
      std::array{ObjectKind::kNamespace, ObjectKind::kPolicy}, [&](ObjectKind kind) {
        const auto& mirror = mirrors_.at(static_cast<std::size_t>(kind));
        return mirror == nullptr || mirror->synced() || mirror->await_synced(most);
      });
}

Controller::Load Controller::load() {
  Load load;
  load.written = written_;
  load.failed = failed_;
  const std::lock_guard lock(queue_mutex_);
  if (queue_ == nullptr) return load;
  load.pods = queue_->pods();
  load.waiting = queue_->waiting();
  load.moves = queue_->moves();
  load.room = queue_->free_room();
  load.nodes_wanted = queue_->nodes_wanted();
  return load;
}

}  // namespace divvy::kube
