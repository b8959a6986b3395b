// What jobs ask for, each different request once: jobs of one shape differ in nothing that
// placement looks at. A pass that found no place for one tries no other of its shape, and the
// policy is told of the shapes to know what may come. jobs::Queue owns it.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

#include "jobs/fleet_view.h"
#include "jobs/queue_tree.h"
#include "model/job.h"
#include "place/request.h"

namespace divvy::jobs {

using ShapeId = std::uint32_t;

struct Shape {
  model::JobSpec spec;  // as much of it as counts
  place::Request request;
  Held member;  // what each member takes at least

  // How much memory its GPUs have is known only when they are chosen, so this is the least, too.
  [[nodiscard]] Held least(std::uint32_t members) const {
    return {member.share * members, member.memory * members, 1};
  }
};

class Shapes {
 public:
  // The fleet outlives it.
  explicit Shapes(FleetView& fleet) : fleet_(fleet) {}

  [[nodiscard]] ShapeId of(const model::Job& job);
  [[nodiscard]] const Shape& operator[](ShapeId id) const { return shapes_[id]; }

  // What they ask for is said in terms of the fleet, which has changed.
  void translate();
  // Tells the policy of all of them.
  void prepare();
  // The same where many are new: more rarely the more is known.
  void prepare_for_new();

  // Shapes of jobs that have ended are kept, up to a limit: they tell the policy what may come.
  [[nodiscard]] bool too_many_for(std::size_t jobs) const {
    return shapes_.size() > std::max(kMost, 2 * jobs);
  }
  void clear();
  [[nodiscard]] std::size_t entries() const { return shapes_.size() + ids_.size(); }

 private:
  static constexpr std::size_t kMost = 256;

  [[nodiscard]] Shape make(model::JobSpec spec) const;

  FleetView& fleet_;
  std::vector<Shape> shapes_;
  std::unordered_map<std::string, ShapeId> ids_;
  std::size_t prepared_for_ = 0;  // shapes that the policy was told of
};

}  // namespace divvy::jobs
