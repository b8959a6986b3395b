// What is asked of placement: members that want GPUs, and everything that says where they may go.
// Plain values. A request may be one member (most are), a gang (all members or none), or elastic
// (as many as fit between a minimum and a maximum).
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/units.h"
#include "model/job_spec.h"
#include "model/where.h"

namespace divvy::place {

using model::Closeness;
using model::Near;
using model::Spread;

// What one member takes. GPUs and the part of one more are on one node.
struct Member {
  std::uint32_t whole_gpus = 0;
  Share part;  // below one GPU; zero with no whole GPU and memory set asks by memory alone
  // On each GPU; nothing gives the same part of the memory as of the GPU. A whole GPU is given to
  // nobody else, however little of its memory is asked for.
  std::optional<Bytes> memory;
  std::uint64_t cpu_milli = 0;
  Bytes ram;
  friend bool operator==(const Member&, const Member&) = default;
};

struct Request {
  std::string name;  // of the job, for messages
  std::string tenant;
  Member member;
  std::uint32_t members = 1;        // wanted
  std::uint32_t least_members = 0;  // 0: all of them. Fewer is an elastic request
  // Pieces of model names, compared without upper and lower case; see model::Request.
  std::vector<std::string> allowed_models;
  std::vector<std::string> denied_models;
  std::vector<std::string> nodes;             // only these; empty: all
  std::vector<std::string> excluded_nodes;    // never these
  std::vector<std::string> devices;           // only these: UUIDs, or "node/index"
  std::map<std::string, std::string> labels;  // the node has all of them
  std::vector<std::string> tolerations;
  Near gpus;          // the GPUs of one member to each other: nvlink, pcie or numa
  Near members_near;  // the members to each other: node, rack or zone
  std::optional<Spread> spread;
  std::int32_t priority = 0;
  bool preemptible = true;
  friend bool operator==(const Request&, const Request&) = default;

  [[nodiscard]] std::uint32_t least() const { return least_members == 0 ? members : least_members; }
};

// Refused: a part of a whole GPU or more, more GPUs than a node can have, an
// impossible number of members, a closeness that makes no sense where it stands.
[[nodiscard]] Status check(const Request& request);

// What somebody submitted, for placement. Its devices are named as they were typed.
[[nodiscard]] Request request_of(const model::JobSpec& spec);

// "0.3 GPU with 10GiB, 4 CPUs" for messages.
[[nodiscard]] std::string describe(const Member& member);

}  // namespace divvy::place
