#include "kube/mirror_state.h"

#include <boost/json.hpp>
#include <utility>

#include "kube/selector.h"

namespace divvy::kube {
namespace {

namespace json = boost::json;

ObjectKey key_of(const json::object& object) {
  return {std::string(text_at(object, "metadata.namespace")),
          std::string(text_at(object, "metadata.name"))};
}
std::string_view version_of(const json::object& object) {
  return text_at(object, "metadata.resourceVersion");
}
bool is_same_thing(const json::object& left, const json::object& right) {
  return text_at(left, "metadata.uid") == text_at(right, "metadata.uid");
}

bool is_number(std::string_view text) {
  return !text.empty() && text.find_first_not_of("0123456789") == std::string_view::npos;
}

}  // namespace

bool is_older_version(std::string_view left, std::string_view right) {
  if (!is_number(left) || !is_number(right)) return false;
  while (left.starts_with('0')) left.remove_prefix(1);
  while (right.starts_with('0')) right.remove_prefix(1);
  return left.size() != right.size() ? left.size() < right.size() : left < right;
}

void MirrorState::put(const ObjectKey& key, ObjectPtr after, std::vector<ObjectChange>& changes) {
  ObjectPtr& known = objects_[key];
  if (known != nullptr && !is_same_thing(*known, *after)) {
    changes.push_back({std::move(known), nullptr});
    known = nullptr;
  }
  changes.push_back({std::exchange(known, after), after});
}

std::vector<ObjectChange> MirrorState::replace(std::vector<json::object> items,
                                               const std::string& version) {
  std::map<ObjectKey, ObjectPtr> listed;
  for (json::object& item : items) {
    ObjectKey key = key_of(item);
    listed[std::move(key)] = std::make_shared<const json::object>(std::move(item));
  }
  std::vector<ObjectChange> changes;
  for (auto known = objects_.begin(); known != objects_.end();) {
    if (listed.contains(known->first)) {
      ++known;
      continue;
    }
    changes.push_back({std::move(known->second), nullptr});
    known = objects_.erase(known);
  }
  for (auto& [key, after] : listed) {
    const auto known = objects_.find(key);
    const bool unchanged = known != objects_.end() && is_same_thing(*known->second, *after) &&
                           version_of(*known->second) == version_of(*after);
    if (!unchanged) put(key, std::move(after), changes);
  }
  version_ = version;
  return changes;
}

std::vector<ObjectChange> MirrorState::apply(WatchEvent event) {
  std::vector<ObjectChange> changes;
  const std::string version(version_of(event.object));
  // The events of a watch come in the order of their versions, so this one was seen already.
  if (version == version_ || is_older_version(version, version_)) return changes;
  if (!version.empty()) version_ = version;
  if (event.kind == WatchEvent::Kind::kBookmark) return changes;
  const ObjectKey key = key_of(event.object);
  if (event.kind == WatchEvent::Kind::kDeleted) {
    const auto known = objects_.find(key);
    if (known == objects_.end()) return changes;
    changes.push_back({std::move(known->second), nullptr});
    objects_.erase(known);
  } else {
    put(key, std::make_shared<const json::object>(std::move(event.object)), changes);
  }
  return changes;
}

}  // namespace divvy::kube
