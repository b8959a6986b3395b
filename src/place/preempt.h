// Who has to make way so that a request of higher priority fits: the fewest and cheapest victims.
// The cluster is afterwards as it was; the caller evicts the victims and takes the spots. Called by
// the thread that owns the placer.
//
// Victims are jobs: evicting one member of a job evicts all of it (Holding::job; members of job 0
// belong to nobody and are victims one by one). A victim has a lower priority than the request and
// all of its members are preemptible. Of two plans the one with fewer victims is better, then the
// one whose victims have lower priorities, then the one that displaces less.
//
// For one member the plan is the best there is, as long as the limit of tries is not reached;
// beyond it, and for gangs with many possible victims, it is a good one. In every case each victim
// is needed: without evicting it the request would not fit.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "place/placer.h"
#include "place/request.h"
#include "place/reserve.h"

namespace divvy::place {

struct Victim {
  std::uint64_t job = 0;
  std::int32_t priority = 0;
  std::uint64_t share = 0;  // displaced, in thousandths of a GPU
  std::vector<HoldingId> holdings;
};

struct PreemptionPlan {
  std::vector<Victim> victims;  // none: it fits as things are
  std::vector<Spot> spots;      // of the request
};

struct PreemptionLimits {
  std::uint64_t tries = 200'000;  // sets of victims on one node that are looked at
  std::uint64_t plans = 2'000;    // sets of victims for a gang that are tried out
};

// Nothing if no eviction helps. Reservations of requests with the same or a higher priority are
// left alone: nobody is evicted from their GPUs, and the request is not put there.
[[nodiscard]] std::optional<PreemptionPlan> plan_preemption(
    Placer& placer, const Request& request, std::span<const Reservation> reservations = {},
    PreemptionLimits limits = {});

}  // namespace divvy::place
