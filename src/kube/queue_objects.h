// Queues as objects of Kubernetes (`queues.divvy.dev`, docs/kubernetes-queues.md): what their
// documents say, what that comes to together with the controller's own settings, and what is told
// about each in its status. Pure; any document is safe to read.
#pragma once

#include <boost/json/object.hpp>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "base/result.h"
#include "jobs/explain.h"
#include "jobs/settings.h"
#include "kube/cluster_objects.h"

namespace divvy::kube {

struct QueueObject {
  ObjectFacts object;
  std::string parent = {};            // name of another one; empty: it is at the top
  jobs::QueueSettings settings = {};  // its path is not known yet
  std::string problem = {};           // what is wrong with it; empty: nothing
  std::uint64_t generation = 0;
  boost::json::object status = {};  // as it is now
};
[[nodiscard]] Result<QueueObject> read_queue(const boost::json::object& queue);

using QueueObjects = std::map<std::string, QueueObject>;  // by name

// What holds: an object comes before what the settings say of the same queue.
struct ComposedQueues {
  jobs::Settings settings;
  std::map<std::string, std::string> paths;     // of objects, by name
  std::map<std::string, std::string> problems;  // of objects that do not hold, by name
};
[[nodiscard]] ComposedQueues compose_queues(const jobs::Settings& base,
                                            const QueueObjects& objects);

// For its status; `report` is null where it does not hold, and `problem` says why.
[[nodiscard]] boost::json::object queue_status(const QueueObject& queue,
                                               const jobs::QueueReport* report,
                                               const std::string& problem, WallTime now);

}  // namespace divvy::kube
