// What an API server keeps and the rules by which it changes, in memory: the state of FakeApi,
// which locks around it. For tests.
#pragma once

#include <boost/json/object.hpp>
#include <boost/json/value.hpp>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "kube/api_server.h"
#include "kube/resource_path.h"

namespace divvy::kube {

class FakeStore {
 public:
  using Object = std::shared_ptr<const boost::json::object>;
  using Name = std::pair<std::string, std::string>;  // Namespace and name
  // One change: null where it was not there before, or is not any more.
  struct Change {
    std::uint64_t revision = 0;
    Object before;
    Object after;
  };

  FakeStore(Clock& clock, std::uint32_t seed) : clock_(clock), random_(seed) {}

  [[nodiscard]] Result<Object> find(const ResourcePath& path) const;
  [[nodiscard]] Result<Object> create(const ResourcePath& path, boost::json::object object);
  [[nodiscard]] Result<Object> replace(const ResourcePath& path, boost::json::object object);
  [[nodiscard]] Result<Object> patch(const ResourcePath& path, PatchType type,
                                     const boost::json::value& patch);
  [[nodiscard]] Status remove(const ResourcePath& path, const boost::json::object& options);

  // Writes the object as it is, status and all; its name and namespace are in it.
  Object put(const ResourcePath& collection, boost::json::object object);
  // Removes whatever has owners of which none is there any more, as the garbage collector does.
  void collect_garbage();

  // In the order of their names; of all namespaces where the path has none.
  [[nodiscard]] std::vector<Object> list(const ResourcePath& collection) const;
  [[nodiscard]] std::uint64_t revision() const { return revision_; }
  // Of a kind (ResourcePath::kind_path()), oldest first.
  [[nodiscard]] const std::vector<Change>& changes(const std::string& kind) const;
  // Forgets the changes so far: watches can only begin from now on.
  void forget_changes();
  [[nodiscard]] std::uint64_t oldest() const { return oldest_; }

 private:
  using Objects = std::map<Name, Object>;

  void record(const std::string& kind, Object before, boost::json::object* after);
  [[nodiscard]] Result<Object> change(const ResourcePath& path, const Object& before,
                                      boost::json::object after);
  [[nodiscard]] Result<Object> bind(const ResourcePath& path, const boost::json::object& binding);
  [[nodiscard]] std::string random_letters(std::size_t count);
  [[nodiscard]] std::string new_uid();
  [[nodiscard]] std::string time_now() const;

  Clock& clock_;
  std::mt19937 random_;
  std::uint64_t revision_ = 1;
  std::uint64_t oldest_ = 1;
  std::map<std::string, Objects> objects_;  // By kind
  std::map<std::string, std::vector<Change>> changes_;
};

}  // namespace divvy::kube
