#include "api/what_if_request.h"

#include <algorithm>
#include <boost/json.hpp>

#include "api/queue_documents.h"
#include "base/text.h"
#include "model/json_fields.h"
#include "place/policy.h"

namespace divvy::api {
namespace {

namespace json = boost::json;
using model::JsonFields;

constexpr std::uint32_t kMostAddedNodes = 256;
constexpr std::size_t kMostGpus = 20'000;
constexpr std::size_t kMostChanges = 64;

void read_nodes(JsonFields& fields, WhatIfNodes& nodes) {
  fields.read("count", nodes.count);
  fields.read("gpus", nodes.gpus);
  fields.read("like", nodes.like);
  fields.read("to", nodes.to);
  fields.read("model", nodes.model);
  fields.read("memory", nodes.memory);
  if (nodes.count < 1 || nodes.count > kMostAddedNodes) {
    fields.refuse("count", fmt::format("this has to be from 1 to {}", kMostAddedNodes));
  }
  if (nodes.gpus && (*nodes.gpus < 1 || *nodes.gpus > place::kMaxDevices)) {
    fields.refuse("gpus", fmt::format("this has to be from 1 to {}", place::kMaxDevices));
  }
  if (nodes.to && (nodes.count != 1 || nodes.like)) {
    fields.refuse("to",
                  "GPUs for a node that is there have no count of nodes and are like its own");
  }
  if (nodes.memory == Bytes(0)) fields.refuse("memory", "a GPU without memory runs nothing");
  if (nodes.model && nodes.model->empty()) fields.refuse("model", "a GPU has a model");
}

jobs::FleetNode* find_node(jobs::Fleet& fleet, std::string_view name) {
  const auto found = std::ranges::find(fleet.nodes, name, &jobs::FleetNode::name);
  return found == fleet.nodes.end() ? nullptr : &*found;
}

model::GpuUuid made_up_uuid(std::size_t number) {
  return model::GpuUuid::parse(fmt::format("GPU-ffffffff-ffff-ffff-ffff-{:012x}", number)).value();
}

class FleetChange {
 public:
  explicit FleetChange(jobs::Fleet& fleet) : fleet_(fleet) {
    for (const jobs::FleetNode& node : fleet.nodes) gpus_ += node.gpus.size();
  }

  Status add(const WhatIfNodes& nodes) {
    jobs::FleetNode* like = nullptr;
    const auto& named = nodes.to ? nodes.to : nodes.like;
    if (named) {
      like = find_node(fleet_, *named);
      if (like == nullptr) {
        return err(ErrorCode::kNotFound, "add: there is no node \"{}\"",
                   escape_for_terminal(*named));
      }
    } else if (!fleet_.nodes.empty()) {
      like = &fleet_.nodes.front();
    }
    if (like == nullptr || like->gpus.empty()) {
      return err(ErrorCode::kFailedPrecondition,
                 "add: there is no GPU that a new one could be like");
    }
    if (nodes.to) return add_gpus(*like, *like, nodes);
    const jobs::FleetNode model = *like;
    for (std::uint32_t i = 0; i < nodes.count; ++i) {
      jobs::FleetNode node = model;
      node.name = free_name();
      node.closed.clear();
      node.lost = false;
      node.gpus.clear();
      DIVVY_RETURN_IF_ERROR(add_gpus(node, model, nodes));
      fleet_.nodes.push_back(std::move(node));
    }
    return {};
  }

  Status remove(const std::string& name) {
    if (jobs::FleetNode* const node = find_node(fleet_, name)) {
      node->lost = true;
      node->closed = "it is gone";
      return {};
    }
    const std::size_t slash = name.rfind('/');
    jobs::FleetNode* const node =
        slash == std::string::npos ? nullptr : find_node(fleet_, name.substr(0, slash));
    if (node != nullptr) {
      for (jobs::FleetGpu& gpu : node->gpus) {
        if (std::to_string(gpu.index) != name.substr(slash + 1)) continue;
        gpu.lost = true;
        gpu.resting = "it is gone";
        return {};
      }
    }
    return err(ErrorCode::kNotFound, "without: there is no node or GPU \"{}\"",
               escape_for_terminal(name));
  }

 private:
  Status add_gpus(jobs::FleetNode& node, const jobs::FleetNode& like, const WhatIfNodes& nodes) {
    const std::size_t kinds = like.gpus.size();
    const std::size_t count = nodes.gpus.value_or(nodes.to ? 1 : static_cast<std::uint32_t>(kinds));
    if (node.gpus.size() + count > place::kMaxDevices || gpus_ + count > kMostGpus) {
      return err(ErrorCode::kOutOfRange,
                 "add: a node has {} GPUs at most, and {} in all are simulated", place::kMaxDevices,
                 kMostGpus);
    }
    for (std::size_t i = 0; i < count; ++i) {
      jobs::FleetGpu gpu = like.gpus[i % kinds];
      gpu.uuid = made_up_uuid(++made_);
      gpu.device.uuid.clear();
      gpu.index = 0;
      for (const jobs::FleetGpu& other : node.gpus)
        gpu.index = std::max(gpu.index, other.index + 1);
      gpu.lost = false;
      gpu.resting.clear();
      if (nodes.model) gpu.device.model = *nodes.model;
      if (nodes.memory) gpu.device.memory = *nodes.memory;
      node.gpus.push_back(std::move(gpu));
      ++gpus_;
    }
    return {};
  }

  std::string free_name() {
    std::string name;
    do {
      name = fmt::format("added-{}", ++named_);
    } while (find_node(fleet_, name) != nullptr);
    return name;
  }

  jobs::Fleet& fleet_;
  std::size_t gpus_ = 0;
  std::size_t made_ = 0;
  std::size_t named_ = 0;
};

// The document of what is, with the fields of the other over it.
Result<std::string> merged(const std::string& is, const std::string& fields) {
  DIVVY_TRY(document, model::parse_json(is));
  DIVVY_TRY(over, model::parse_json(fields));
  for (const auto& [name, value] : over.as_object()) document.as_object()[name] = value;
  // What goes with a field that is taken away.
  if (const json::value* const idle = document.as_object().if_contains("idle_after");
      idle != nullptr && idle->is_null()) {
    document.as_object().erase("idle_warning");
  }
  return json::serialize(document);
}

Status change_queue(jobs::Settings& settings, const std::string& path, const std::string& fields) {
  auto found = std::ranges::find(settings.queues, path, &jobs::QueueSettings::path);
  if (found == settings.queues.end()) {
    jobs::QueueSettings queue;
    queue.path = path;
    found = settings.queues.insert(found, std::move(queue));
  }
  DIVVY_TRY(document, merged(write_queue_settings(*found), fields));
  DIVVY_TRY(changed, with_context(read_queue_settings(path, document), "queues." + path));
  changed.highest_priority = found->highest_priority;
  *found = std::move(changed);
  return {};
}

Status change_user(jobs::Settings& settings, const std::string& name, const std::string& fields) {
  auto found = std::ranges::find(settings.users, name, &jobs::UserSettings::name);
  if (found == settings.users.end()) {
    jobs::UserSettings user;
    user.name = name;
    found = settings.users.insert(found, std::move(user));
  }
  DIVVY_TRY(document, merged(write_user_settings(*found), fields));
  DIVVY_TRY(changed, with_context(read_user_settings(name, document), "users." + name));
  *found = std::move(changed);
  return {};
}

}  // namespace

Result<WhatIfRequest> parse_what_if_request(std::string_view body) {
  WhatIfRequest request;
  if (body.empty()) return request;
  DIVVY_TRY(document, model::parse_json(body));
  JsonFields fields(document);
  fields.read_list("add", [&](const json::value& item, const std::string& place) {
    fields.inside(item, place,
                  [&](JsonFields& inside) { read_nodes(inside, request.add.emplace_back()); });
  });
  fields.read("without", request.without);
  fields.read("policy", request.policy);
  fields.read("preemption", request.preemption);
  const auto read_documents = [&](std::string_view name, std::map<std::string, std::string>& into) {
    fields.read_map(name,
                    [&](const std::string& key, const json::value& item, const std::string& place) {
                      if (!item.is_object())
                        return fields.refuse(place, "this has to be an object");
                      into[key] = json::serialize(item);
                    });
  };
  read_documents("queues", request.queues);
  read_documents("users", request.users);
  if (request.add.size() + request.without.size() + request.queues.size() + request.users.size() >
      kMostChanges) {
    fields.refuse("add", fmt::format("more than {} changes at once", kMostChanges));
  }
  DIVVY_RETURN_IF_ERROR(fields.finish());
  return request;
}

Result<jobs::Snapshot> with_changes(jobs::Snapshot snapshot, const WhatIfRequest& request,
                                    const std::vector<std::string>& queues) {
  FleetChange fleet(snapshot.fleet);
  for (const std::string& name : request.without) DIVVY_RETURN_IF_ERROR(fleet.remove(name));
  for (const WhatIfNodes& nodes : request.add) DIVVY_RETURN_IF_ERROR(fleet.add(nodes));
  if (request.policy) {
    if (const auto made = place::make_policy(*request.policy); !made) {
      return err(with_context(made.error(), "policy"));
    }
    snapshot.settings.policy = *request.policy;
  }
  if (request.preemption) snapshot.settings.preemption = *request.preemption;
  for (const auto& [path, fields] : request.queues) {
    if (std::ranges::find(queues, path) == queues.end()) {
      return err(ErrorCode::kNotFound, "queues: there is no queue \"{}\"",
                 escape_for_terminal(path));
    }
    DIVVY_RETURN_IF_ERROR(change_queue(snapshot.settings, path, fields));
  }
  for (const auto& [name, fields] : request.users) {
    DIVVY_RETURN_IF_ERROR(change_user(snapshot.settings, name, fields));
  }
  DIVVY_RETURN_IF_ERROR(jobs::check(snapshot.settings));
  return snapshot;
}

}  // namespace divvy::api
