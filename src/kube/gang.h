// What ClusterQueue knows of a gang: pods that start together or not at all (gang_reference.h). Its
// own state; nobody else changes it.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>

#include "base/clock.h"
#include "kube/gang_reference.h"
#include "kube/gang_size.h"
#include "model/job_spec.h"

namespace divvy::kube {

struct Gang {
  GangReference reference;
  std::string space;
  std::set<std::string> pods = {};    // by uid
  std::set<std::string> others = {};  // names of pods in it that ask for nothing of ours
  bool is_part = false;               // of an object whose parts are gangs of their own

  // How many they are; nothing: the object was not read yet.
  std::optional<GangSize> size = std::nullopt;
  std::string problem = {};  // why it could not be read
  bool reading = false;
  WallTime read_at = {};
  std::uint32_t unread = 0;  // attempts that did not work, in a row

  // Of those that are in the queue, or have a place.
  model::JobId job = {};
  std::size_t queued = 0;   // members of that job while it waits
  std::size_t attempt = 0;  // ... while they are placed; 0: nobody knows, it was begun by another
  bool runs = false;        // some of them do
  bool complete = false;    // all of them have their place: the gates may be removed
  bool failing = false;     // it is taken back, from all of them
  std::map<std::string, WallTime> avoided = {};  // nodes that did not take one, and until when
  std::uint32_t refusals = 0;                    // attempts in a row that were taken back
  std::optional<WallTime> not_before = std::nullopt;
  std::string refusal = {};  // why it was taken back

  // So many pods of ours have to be there before it is in the queue, and so many start together.
  [[nodiscard]] std::size_t expected() const;
  [[nodiscard]] std::size_t least() const;
};

}  // namespace divvy::kube
