#include "place/clearing.h"

#include <algorithm>
#include <bit>

namespace divvy::place {
namespace {

void remove(NodeTrial& node, const Leaver& leaver) {
  for (const Spot& spot : leaver.spots) node.remove(spot);
}

void add(NodeTrial& node, const Leaver& leaver) {
  for (const Spot& spot : leaver.spots) node.add(spot);
}

std::size_t devices_of(const Leaver& leaver) {
  unsigned devices = 0;
  for (const Spot& spot : leaver.spots) {
    devices |= spot.whole;
    if (spot.part_device >= 0) devices |= 1U << spot.part_device;
  }
  return static_cast<std::size_t>(std::popcount(devices));
}

class Search {
 public:
  Search(const Ask& ask, std::span<const Leaver> leavers, std::uint64_t& tries,
         const VisitClearing& visit)
      : ask_(ask), leavers_(leavers), tries_(tries), visit_(visit) {}

  // `node` has those removed that were picked; `size` more are to be picked from `first` on.
  bool pick(const NodeTrial& node, std::size_t first, std::size_t size) {
    if (size == 0) {
      if (tries_ == 0) return false;
      --tries_;
      if (node.fits(ask_)) visit_(picked_);
      return true;
    }
    for (std::size_t i = first; i + size <= leavers_.size(); ++i) {
      NodeTrial without = node;
      remove(without, leavers_[i]);
      picked_.push_back(i);
      const bool went_on = pick(without, i + 1, size - 1);
      picked_.pop_back();
      if (!went_on) return false;
    }
    return true;
  }

 private:
  const Ask& ask_;
  std::span<const Leaver> leavers_;
  std::uint64_t& tries_;
  const VisitClearing& visit_;
  std::vector<std::size_t> picked_;
};

}  // namespace

std::size_t fewest_leavers(const NodeTrial& node, const Ask& ask, std::span<const Leaver> leavers) {
  NodeTrial empty = node;
  for (const Leaver& leaver : leavers) remove(empty, leaver);
  if (!empty.fits(ask)) return leavers.size() + 1;
  if (node.fits(ask)) return 0;
  // Nobody clears more GPUs than it touches.
  const auto whole = static_cast<std::size_t>(std::popcount(whole_devices(node.view(), ask)));
  if (ask.whole <= whole) return 1;
  std::vector<std::size_t> devices;
  for (const Leaver& leaver : leavers) devices.push_back(devices_of(leaver));
  std::ranges::sort(devices, std::ranges::greater{});
  std::size_t cleared = 0;
  std::size_t count = 0;
  while (count < devices.size() && whole + cleared < ask.whole) cleared += devices[count++];
  return std::max<std::size_t>(count, 1);
}

std::vector<std::size_t> some_clearing(const NodeTrial& node, const Ask& ask,
                                       std::span<const Leaver> leavers) {
  NodeTrial trial = node;
  for (const Leaver& leaver : leavers) remove(trial, leaver);
  if (!trial.fits(ask)) return {};
  std::vector<std::size_t> gone;
  // Whoever stands last is asked first whether it can stay.
  for (std::size_t i = leavers.size(); i-- > 0;) {
    NodeTrial with = trial;
    add(with, leavers[i]);
    if (with.fits(ask)) {
      trial = with;
    } else {
      gone.push_back(i);
    }
  }
  std::ranges::reverse(gone);
  return gone;
}

bool visit_clearings(const NodeTrial& node, const Ask& ask, std::span<const Leaver> leavers,
                     std::size_t size, std::uint64_t& tries, const VisitClearing& visit) {
  return Search(ask, leavers, tries, visit).pick(node, 0, size);
}

}  // namespace divvy::place
