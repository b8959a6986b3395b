// What somebody would like to try (POST /v1/what-if), and the copy of the queue with it. Pure,
// callable from any thread.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/units.h"
#include "jobs/snapshot.h"

namespace divvy::api {

struct WhatIfNodes {
  std::uint32_t count = 1;
  std::optional<std::uint32_t> gpus;
  std::optional<std::string> like;  // the node that they are copies of; nothing: the first
  std::optional<std::string> to;    // GPUs for this node instead
  std::optional<std::string> model;
  std::optional<Bytes> memory;
};

struct WhatIfRequest {
  std::vector<WhatIfNodes> add;
  std::vector<std::string> without;  // "node-a", "node-a/3"
  std::optional<std::string> policy;
  std::optional<bool> preemption;
  std::map<std::string, std::string> queues;  // documents of fields that are to be others
  std::map<std::string, std::string> users;
};

// An empty body changes nothing.
[[nodiscard]] Result<WhatIfRequest> parse_what_if_request(std::string_view body);

// `queues` are those that there are. Refused: nodes, GPUs and queues that are not there, settings
// that cannot be, more GPUs than one simulates.
[[nodiscard]] Result<jobs::Snapshot> with_changes(jobs::Snapshot snapshot,
                                                  const WhatIfRequest& request,
                                                  const std::vector<std::string>& queues);

}  // namespace divvy::api
