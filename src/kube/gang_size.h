// How many pods of a gang there are, and how many of them have to start together: as the object
// says that made them or that groups them. Of the pods of such an object only those count that ask
// for GPUs of Divvy's, which is read from their templates. Pure; any document is safe to read.
#pragma once

#include <boost/json/object.hpp>
#include <cstdint>
#include <map>
#include <string>

#include "base/clock.h"
#include "base/result.h"
#include "kube/gang_reference.h"
#include "kube/pod_request.h"
#include "model/where.h"

namespace divvy::kube {

struct GangSize {
  std::uint32_t pods = 0;   // so many there will be; 0: nobody says
  std::uint32_t least = 0;  // start together; 0: all of them
  // The object counts pods that ask for nothing of ours, too.
  bool counts_others = false;
  // Its parts are made one after the other, each when the one before is ready: each of them is a
  // gang of its own. Pods by part.
  bool by_parts = false;
  std::map<std::string, std::uint32_t> parts = {};
  std::string topology = {};  // the label of nodes that has to be the same for all of them
  WallTime created = {};      // of the object; pods that are made anew keep its age

  [[nodiscard]] bool is_gang() const { return std::max(pods, least) > 1; }
  friend bool operator==(const GangSize&, const GangSize&) = default;
};

// Of the object at the reference's path. `policy` is that of the namespace. Refused: it does not
// say.
[[nodiscard]] Result<GangSize> read_gang_size(const GangReference& gang,
                                              const boost::json::object& object,
                                              const DialectPolicy& policy);

}  // namespace divvy::kube
