// What a mirror knows of a collection, and what a list or an event does to it. Pure: no input or
// output, no threads. Property-tested against histories with lost connections and old versions.
#pragma once

#include <boost/json/object.hpp>
#include <compare>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "kube/api_server.h"

namespace divvy::kube {

// Never changed once it is made, so it may be kept and read from any thread.
using ObjectPtr = std::shared_ptr<const boost::json::object>;

struct ObjectKey {
  std::string space;  // The namespace; empty for what is in none
  std::string name;
  friend auto operator<=>(const ObjectKey&, const ObjectKey&) = default;
};

// `before` null: it is new. `after` null: it is gone. One that was deleted and made anew under the
// same name is two changes.
struct ObjectChange {
  ObjectPtr before;
  ObjectPtr after;
};

class MirrorState {
 public:
  // A whole list, in any order: the differences to what was there, deletions first.
  [[nodiscard]] std::vector<ObjectChange> replace(std::vector<boost::json::object> items,
                                                  const std::string& version);
  // One event of a watch. What is older than what is known changes nothing.
  [[nodiscard]] std::vector<ObjectChange> apply(WatchEvent event);

  // From where to watch.
  [[nodiscard]] const std::string& version() const { return version_; }
  [[nodiscard]] const std::map<ObjectKey, ObjectPtr>& objects() const { return objects_; }

 private:
  void put(const ObjectKey& key, ObjectPtr after, std::vector<ObjectChange>& changes);

  std::map<ObjectKey, ObjectPtr> objects_;
  std::string version_;
};

// Resource versions of one resource are numbers that grow; anything else is never older.
[[nodiscard]] bool is_older_version(std::string_view left, std::string_view right);

}  // namespace divvy::kube
