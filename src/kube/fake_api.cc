#include "kube/fake_api.h"

#include <algorithm>
#include <boost/json.hpp>
#include <charconv>
#include <limits>

#include "base/check.h"
#include "kube/selector.h"

namespace divvy::kube {
namespace {

namespace json = boost::json;

std::uint64_t to_number(std::string_view text) {
  std::uint64_t value = 0;
  std::from_chars(text.data(), text.data() + text.size(), value);
  return value;
}

struct Selectors {
  Selector labels;
  Selector fields;
  std::string space;

  static Result<Selectors> of(const ResourcePath& path) {
    DIVVY_TRY(labels, Selector::of_labels(path.parameter("labelSelector")));
    DIVVY_TRY(fields, Selector::of_fields(path.parameter("fieldSelector")));
    return Selectors{std::move(labels), std::move(fields), path.space};
  }
  [[nodiscard]] bool match(const FakeStore::Object& object) const {
    return object != nullptr && labels.matches(*object) && fields.matches(*object) &&
           (space.empty() || text_at(*object, "metadata.namespace") == space);
  }
};

// "resourceclaims" of "/apis/resource.k8s.io/v1" has the version "resource.k8s.io/v1".
std::string api_version(const ResourcePath& path) {
  return path.group_version.substr(path.group_version.starts_with("/apis/") ? 6 : 5);
}

Error gone() { return {ErrorCode::kOutOfRange, "too old resource version: list again"}; }
Error away() { return {ErrorCode::kUnavailable, "no API server answers: connection refused"}; }

}  // namespace

FakeApi::FakeApi(Clock& clock, std::uint32_t seed) : store_(clock, seed) {}
FakeApi::FakeApi() : store_(own_clock_, 1) {}
FakeApi::~FakeApi() = default;

Status FakeApi::admit(const std::string& verb, const std::string& path) {
  if (away_) return err(away());
  if (auto found = failures_.find(verb); found != failures_.end() && !found->second.empty()) {
    Error error = std::move(found->second.front());
    found->second.pop_front();
    return err(std::move(error));
  }
  if (fault_) {
    if (auto error = fault_(verb, path)) return err(*std::move(error));
  }
  requests_.push_back(verb + " " + path);
  return {};
}

template <typename Write>
Result<json::object> FakeApi::write(const std::string& verb, const std::string& path,
                                    const Write& change) {
  DIVVY_TRY(parsed, ResourcePath::parse(path));
  const std::lock_guard lock(mutex_);
  DIVVY_RETURN_IF_ERROR(admit(verb, path));
  const Result<FakeStore::Object> written = change(parsed);
  changed_.notify_all();
  if (std::size_t& lost = lost_answers_[verb]; lost > 0) {
    --lost;
    return err(ErrorCode::kUnavailable, "the connection ended before the answer came");
  }
  if (!written) return err(written.error());
  return *written == nullptr ? json::object() : **written;
}

Result<json::object> FakeApi::get(const std::string& path) {
  DIVVY_TRY(parsed, ResourcePath::parse(path));
  const std::lock_guard lock(mutex_);
  DIVVY_RETURN_IF_ERROR(admit("GET", path));
  if (parsed.name.empty()) return list(parsed);
  DIVVY_TRY(object, store_.find(parsed));
  return *object;
}

Result<json::object> FakeApi::create(const std::string& path, const json::object& object) {
  return write("POST", path,
               [&](const ResourcePath& parsed) { return store_.create(parsed, object); });
}

Result<json::object> FakeApi::replace(const std::string& path, const json::object& object) {
  return write("PUT", path,
               [&](const ResourcePath& parsed) { return store_.replace(parsed, object); });
}

Result<json::object> FakeApi::patch(const std::string& path, PatchType type,
                                    const json::value& patch) {
  return write("PATCH", path,
               [&](const ResourcePath& parsed) { return store_.patch(parsed, type, patch); });
}

Status FakeApi::remove(const std::string& path, const json::object& options) {
  const auto removed =
      write("DELETE", path, [&](const ResourcePath& parsed) -> Result<FakeStore::Object> {
        DIVVY_RETURN_IF_ERROR(store_.remove(parsed, options));
        return FakeStore::Object();
      });
  if (!removed) return err(removed.error());
  return {};
}

// Pages are of one moment, as they are on a real server: the first one takes a snapshot.
Result<json::object> FakeApi::list(const ResourcePath& path) {
  const std::string given(path.parameter("continue"));
  Snapshot snapshot;
  if (given.empty()) {
    DIVVY_TRY(selectors, Selectors::of(path));
    for (const FakeStore::Object& object : store_.list(path)) {
      if (selectors.match(object)) snapshot.objects.push_back(object);
    }
    snapshot.revision = store_.revision();
  } else {
    const auto found = snapshots_.find(given);
    if (found == snapshots_.end()) {
      return err(ErrorCode::kOutOfRange,
                 "The provided continue parameter is too old to display a consistent list result");
    }
    snapshot = found->second;
  }
  std::size_t count = snapshot.objects.size();
  if (const std::size_t limit = to_number(path.parameter("limit")); limit > 0) {
    count = std::min(count, limit);
  }
  json::array items;
  for (std::size_t i = 0; i < count; ++i) {
    json::object item = *snapshot.objects[i];
    // Those that are in a list do not say what they are.
    item.erase("kind");
    item.erase("apiVersion");
    items.emplace_back(std::move(item));
  }
  json::object metadata{{"resourceVersion", std::to_string(snapshot.revision)}};
  if (count < snapshot.objects.size()) {
    Snapshot rest{
        {snapshot.objects.begin() + static_cast<std::ptrdiff_t>(count), snapshot.objects.end()},
        snapshot.revision};
    metadata["remainingItemCount"] = rest.objects.size();
    const std::string token = fmt::format("{}:{}", snapshot.revision, ++last_token_);
    metadata["continue"] = token;
    snapshots_[token] = std::move(rest);
  }
  return json::object{{"kind", "List"},
                      {"apiVersion", api_version(path)},
                      {"metadata", std::move(metadata)},
                      {"items", std::move(items)}};
}

// One watch: where it stands, and what it has still to say.
class FakeApi::Follower {
 public:
  Follower(FakeApi& api, ResourcePath path, Selectors selectors)
      : api_(api), path_(std::move(path)), selectors_(std::move(selectors)) {}

  // Under the lock.
  Status start() {
    const std::string_view from = path_.parameter("resourceVersion");
    at_ = from.empty() || from == "0" ? api_.store_.revision() : to_number(from);
    ends_ = api_.ends_;
    bookmarks_ = api_.bookmarks_;
    expiries_ = api_.expiries_;
    if (at_ < api_.store_.oldest()) return err(gone());
    if (!from.empty() && from != "0") return {};
    for (const FakeStore::Object& object : api_.store_.list(path_)) {
      if (selectors_.match(object)) events_.push_back({WatchEvent::Kind::kAdded, *object});
    }
    return {};
  }

  // Under the lock: whether there is anything to do, collecting it.
  bool look() {
    if (over()) return true;
    const auto& changes = api_.store_.changes(path_.kind_path());
    auto change = std::upper_bound(
        changes.begin(), changes.end(), at_,
        [](std::uint64_t at, const FakeStore::Change& one) { return at < one.revision; });
    for (; change != changes.end(); ++change) add(*change);
    if (bookmarks_ != api_.bookmarks_) {
      bookmarks_ = api_.bookmarks_;
      at_ = api_.store_.revision();
      if (path_.parameter("allowWatchBookmarks") == "true") {
        json::object metadata{{"resourceVersion", std::to_string(at_)}};
        events_.push_back({WatchEvent::Kind::kBookmark, {{"metadata", std::move(metadata)}}});
      }
    }
    return !events_.empty();
  }
  [[nodiscard]] bool over() const {
    return api_.away_ || ends_ != api_.ends_ || expiries_ != api_.expiries_;
  }
  [[nodiscard]] Status end() const {
    if (api_.away_) return err(away());
    if (expiries_ != api_.expiries_) return err(gone());
    return {};
  }
  std::vector<WatchEvent> take() { return std::exchange(events_, {}); }

 private:
  // Something that no longer matches is gone for who watches, and the other way round.
  void add(const FakeStore::Change& change) {
    at_ = change.revision;
    const bool was = selectors_.match(change.before);
    const bool is = selectors_.match(change.after);
    if (is) {
      events_.push_back(
          {was ? WatchEvent::Kind::kModified : WatchEvent::Kind::kAdded, *change.after});
    } else if (was) {
      json::object last = *change.before;
      last["metadata"].as_object()["resourceVersion"] = std::to_string(change.revision);
      events_.push_back({WatchEvent::Kind::kDeleted, std::move(last)});
    }
  }

  FakeApi& api_;
  const ResourcePath path_;
  const Selectors selectors_;
  std::uint64_t at_ = 0;
  std::size_t ends_ = 0;
  std::size_t bookmarks_ = 0;
  std::size_t expiries_ = 0;
  std::vector<WatchEvent> events_;
};

Status FakeApi::watch(const std::string& path, const std::function<bool(WatchEvent)>& take,
                      const std::stop_token& stop) {
  DIVVY_TRY(parsed, ResourcePath::parse(path));
  DIVVY_TRY(selectors, Selectors::of(parsed));
  Follower follower(*this, std::move(parsed), std::move(selectors));
  std::unique_lock lock(mutex_);
  DIVVY_RETURN_IF_ERROR(admit("WATCH", path));
  DIVVY_RETURN_IF_ERROR(follower.start());
  ++watches_;
  changed_.notify_all();
  bool wanted = true;
  while (wanted && changed_.wait(lock, stop, [&] { return follower.look(); })) {
    if (follower.over()) break;
    const std::vector<WatchEvent> events = follower.take();
    lock.unlock();
    for (const WatchEvent& event : events) {
      wanted = wanted && !stop.stop_requested() && take(event);
    }
    lock.lock();
  }
  --watches_;
  changed_.notify_all();
  if (stop.stop_requested()) return err(ErrorCode::kCancelled, "the watch was stopped");
  if (!wanted) return {};
  return follower.end();
}

Status FakeApi::read_text(const std::string& path,
                          const std::function<bool(std::string_view)>& take,
                          const std::stop_token& stop) {
  const bool follow = path.find("follow=true") != std::string::npos;
  const std::string key = path.substr(0, path.find('?'));
  std::unique_lock lock(mutex_);
  DIVVY_RETURN_IF_ERROR(admit("GET", path));
  if (!texts_.contains(key)) {
    return err(ErrorCode::kInvalidArgument, "the container of {} is waiting to start", key);
  }
  const Text& source = texts_.at(key);
  for (std::size_t at = 0, ends = ends_;;) {
    const bool more = changed_.wait(lock, stop, [&] {
      return source.text.size() > at || source.ended || !follow || away_ || ends != ends_;
    });
    if (!more) return err(ErrorCode::kCancelled, "the text was stopped");
    if (away_) return err(away());
    if (ends != ends_) return {};
    const std::string piece = source.text.substr(at);
    at += piece.size();
    if (!piece.empty()) {
      lock.unlock();
      if (!take(piece)) return {};
      lock.lock();
      continue;
    }
    if (source.ended || !follow) return {};
  }
}

void FakeApi::put_text(const std::string& path, std::string_view text) {
  const std::lock_guard lock(mutex_);
  texts_[path].text += text;
  changed_.notify_all();
}

void FakeApi::end_text(const std::string& path) {
  const std::lock_guard lock(mutex_);
  texts_[path].ended = true;
  changed_.notify_all();
}

json::object FakeApi::put(const std::string& collection, json::object object) {
  const auto path = ResourcePath::parse(collection);
  DIVVY_CHECK(path && path->name.empty(), "'{}' is no collection", collection);
  const std::lock_guard lock(mutex_);
  const FakeStore::Object written = store_.put(*path, std::move(object));
  changed_.notify_all();
  return *written;
}

void FakeApi::collect_garbage() {
  const std::lock_guard lock(mutex_);
  store_.collect_garbage();
  changed_.notify_all();
}

void FakeApi::set_fault(Fault fault) {
  const std::lock_guard lock(mutex_);
  fault_ = std::move(fault);
}

void FakeApi::set_connect(Connect connect) {
  const std::lock_guard lock(mutex_);
  connect_ = std::move(connect);
}

Result<std::unique_ptr<PodConnection>> FakeApi::connect(const std::string& path,
                                                        const std::string& protocols) {
  Connect connect;
  {
    const std::lock_guard lock(mutex_);
    connect = connect_;
  }
  return connect ? connect(path, protocols) : ApiServer::connect(path, protocols);
}

void FakeApi::fail_next(const std::string& verb, Error error) {
  const std::lock_guard lock(mutex_);
  failures_[verb].push_back(std::move(error));
}

void FakeApi::lose_next_answer(const std::string& verb) {
  const std::lock_guard lock(mutex_);
  ++lost_answers_[verb];
}

void FakeApi::set_away(bool away) {
  const std::lock_guard lock(mutex_);
  away_ = away;
  changed_.notify_all();
}

void FakeApi::end_watches() {
  const std::lock_guard lock(mutex_);
  ++ends_;
  changed_.notify_all();
}

void FakeApi::expire() {
  const std::lock_guard lock(mutex_);
  store_.forget_changes();
  snapshots_.clear();
  ++expiries_;
  changed_.notify_all();
}

void FakeApi::send_bookmarks() {
  const std::lock_guard lock(mutex_);
  ++bookmarks_;
  changed_.notify_all();
}

std::vector<std::string> FakeApi::requests() const {
  const std::lock_guard lock(mutex_);
  return requests_;
}

std::size_t FakeApi::running_watches() const {
  const std::lock_guard lock(mutex_);
  return watches_;
}

void FakeApi::await_watches(std::size_t count) {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return watches_ >= count; });
}

}  // namespace divvy::kube
