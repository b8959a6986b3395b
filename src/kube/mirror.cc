#include "kube/mirror.h"

#include <algorithm>
#include <utility>

#include "base/log.h"
#include "kube/lister.h"
#include "kube/resource_path.h"

namespace divvy::kube {
namespace {

// A watch that lasted so long was a success, however it ended.
constexpr Duration kLongEnough = std::chrono::seconds(5);

constexpr unsigned kRelistAfter = 5;

}  // namespace

Mirror::Mirror(ApiServer& api, Clock& clock, MirrorOptions options, Listener on_change,
               std::function<void()> on_synced)
    : api_(api),
      clock_(clock),
      options_(std::move(options)),
      on_change_(std::move(on_change)),
      on_synced_(std::move(on_synced)),
      random_(std::random_device()()),
      thread_([this](const std::stop_token& stop) { run(stop); }) {}

Mirror::~Mirror() {
  thread_.request_stop();
  clock_.wake();
  thread_.join();
}

ObjectPtr Mirror::find(const std::string& space, const std::string& name) const {
  const std::lock_guard lock(mutex_);
  const auto found = state_.objects().find({space, name});
  return found == state_.objects().end() ? nullptr : found->second;
}

std::vector<ObjectPtr> Mirror::all() const {
  const std::lock_guard lock(mutex_);
  std::vector<ObjectPtr> objects;
  objects.reserve(state_.objects().size());
  for (const auto& [key, object] : state_.objects()) objects.push_back(object);
  return objects;
}

bool Mirror::await_synced(std::chrono::milliseconds most) const {
  std::unique_lock lock(mutex_);
  return synced_changed_.wait_for(lock, most, [this] { return synced_.load(); });
}

void Mirror::run(const std::stop_token& stop) {
  while (!stop.stop_requested()) {
    const Status done = listed_ ? watch(stop) : list(stop);
    if (stop.stop_requested()) return;
    if (!done) wait_after(done.error(), stop);
  }
}

Status Mirror::list(const std::stop_token& stop) {
  DIVVY_TRY(listing, list_all(api_, options_.path, options_.page, stop));
  if (options_.trim) std::ranges::for_each(listing.items, options_.trim);
  std::vector<ObjectChange> changes;
  {
    const std::lock_guard lock(mutex_);
    changes = state_.replace(std::move(listing.items), listing.version);
  }
  listed_ = true;
  tell(changes);
  if (synced_) return {};
  {
    const std::lock_guard lock(mutex_);
    synced_ = true;
  }
  synced_changed_.notify_all();
  if (on_synced_) on_synced_();
  return {};
}

Status Mirror::watch(const std::stop_token& stop) {
  const auto most = static_cast<unsigned>(options_.watch_time.count());
  std::string path = with_parameter(options_.path, "resourceVersion", state_.version());
  path = with_parameter(path, "allowWatchBookmarks", "true");
  path =
      with_parameter(path, "timeoutSeconds", std::to_string(most + random_() % std::max(most, 1U)));
  const TimePoint start = clock_.now();
  bool heard = false;
  Status ended = api_.watch(
      path,
      [&](WatchEvent event) {
        heard = true;
        if (options_.trim && event.kind != WatchEvent::Kind::kBookmark) options_.trim(event.object);
        std::vector<ObjectChange> changes;
        {
          const std::lock_guard lock(mutex_);
          changes = state_.apply(std::move(event));
        }
        tell(changes);
        return !stop.stop_requested();
      },
      stop);
  if (heard || clock_.now() - start >= kLongEnough) failures_ = 0;
  if (!ended && ended.error().code == ErrorCode::kOutOfRange) listed_ = false;
  // A server that ends every watch at once must not be asked without a pause.
  if (ended && !heard && clock_.now() - start < kLongEnough) {
    return err(ErrorCode::kUnavailable, "the server ended the watch at once");
  }
  return ended;
}

void Mirror::tell(const std::vector<ObjectChange>& changes) {
  for (const ObjectChange& change : changes) on_change_(change);
}

void Mirror::wait_after(const Error& error, const std::stop_token& stop) {
  ++failures_;
  // A cluster that was restored from a backup has older versions than the one that we wait for.
  if (failures_ % kRelistAfter == 0) listed_ = false;
  // Once is ordinary: a server that was restarted, a version that is too old.
  if (failures_ == 1) return;
  if (failures_ == 2) {
    log_warning("kubernetes objects not followed; trying again",
                {{"path", options_.path}, {"reason", error.message}});
  }
  const auto doubled = options_.first_delay * (1U << std::min(failures_ - 2, 16U));
  const auto most = std::min<std::chrono::milliseconds>(doubled, options_.most_delay);
  // Between half and all of it, so that not everybody comes back at the same moment.
  const auto delay =
      most / 2 + std::chrono::milliseconds(random_() % static_cast<unsigned>(most.count() / 2 + 1));
  clock_.wait_until(clock_.now() + delay, [&stop] { return stop.stop_requested(); });
}

}  // namespace divvy::kube
