// The fleet as placement sees it, with what jobs hold: keeps a place::Cluster in step
// with the fleet and translates between spots there and the slices of a job's members. jobs::Queue
// owns it.
#pragma once

#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "jobs/fleet.h"
#include "model/job.h"
#include "place/cluster.h"
#include "place/placer.h"

namespace divvy::jobs {

class FleetView {
 public:
  // The policy has passed check().
  explicit FleetView(std::string policy);

  // Says whether nodes or GPUs came, went or changed: then nobody holds anything any more, and
  // every job has to be taken anew. Refused, with nothing changed: two nodes of one name, too many
  // GPUs.
  [[nodiscard]] Result<bool> update(const Fleet& fleet);
  // What is to be expected, for the policy.
  void prepare(std::span<const place::Request> requests);

  [[nodiscard]] place::Cluster& cluster() { return *cluster_; }
  [[nodiscard]] const place::Cluster& cluster() const { return *cluster_; }
  [[nodiscard]] place::Placer& placer() { return *placer_; }
  [[nodiscard]] const Fleet& fleet() const { return fleet_; }

  // What a job asks, with its GPUs named as placement knows them.
  [[nodiscard]] place::Request request_of(const model::JobSpec& spec) const;

  // Why it could not start though every GPU were healthy and nobody held anything; nothing: it
  // could, or no node is known.
  [[nodiscard]] std::optional<std::string> never(const place::Request& request) const;
  // Why its part of a GPU would be too small on every GPU; nothing: it is not, or there is no GPU.
  [[nodiscard]] std::optional<std::string> too_small(const model::Request& request) const;
  // What one member takes of GPUs and their memory at least, wherever it goes.
  [[nodiscard]] Share least_share(const model::Request& request) const;
  [[nodiscard]] Bytes least_memory(const model::Request& request) const;
  // Whether some node is not for this user: then it matters whose job it is.
  [[nodiscard]] bool excludes(const std::string& user) const { return excluded_.contains(user); }

  // Where members are that were placed: by rank, with slices as the node will grant them.
  [[nodiscard]] std::vector<model::JobMember> members_at(std::span<const place::Spot> spots,
                                                         const model::JobSpec& spec) const;
  // And back, for what runs already, as far as its GPUs are there; nothing where its node is not.
  [[nodiscard]] std::optional<place::Spot> spot_of(const model::JobMember& member,
                                                   const model::JobSpec& spec) const;
  // As much of the spot as is free: others may hold what was granted while nobody looked. Also
  // where the GPU rests.
  [[nodiscard]] place::HoldingId take(const place::Spot& spot, std::uint64_t job,
                                      std::int32_t priority, bool preemptible);
  // The GPU or the node under a member is lost, and why.
  [[nodiscard]] std::optional<std::string> lost(const model::JobMember& member) const;
  // "gpu0 and 0.5 of gpu1 of node-a"
  [[nodiscard]] std::string describe(const model::JobMember& member) const;

 private:
  [[nodiscard]] bool same_shape(const Fleet& fleet) const;
  [[nodiscard]] Status rebuild(const Fleet& fleet);
  void mirror_health();
  [[nodiscard]] const FleetNode* find(const std::string& node) const;
  [[nodiscard]] const FleetGpu* find(const std::string& node, const model::GpuUuid& uuid) const;

  std::string policy_;
  Fleet fleet_;
  std::unique_ptr<place::Cluster> cluster_;
  std::unique_ptr<place::Placer> placer_;
  std::unique_ptr<place::Cluster> empty_;  // the same nodes, healthy and without anybody
  std::set<std::string> excluded_;         // users
};

}  // namespace divvy::jobs
