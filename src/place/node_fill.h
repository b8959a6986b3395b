// How much of a node stays idle when the usual requests have filled it: what the policy `divvy`
// thinks a node is worth losing. A number of sequences stand for the many ways in which the usual
// requests may come, and the node is filled greedily with each of them.
//
// Assumptions: who comes next is not known, what kind comes is. A node does not get requests in the
// order in which they arrive: a large one goes where it still fits, and small ones go elsewhere
// meanwhile. So a sequence has its largest requests first, within stretches that grow.
//
// Nothing is drawn by lot: within a stretch, requests are picked evenly from all kinds in the order
// of their size, and each sequence begins at another point. Prepared once, then pure. Used by one
// thread.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "place/cluster.h"
#include "place/workload.h"

namespace divvy::place {

class NodeFill {
 public:
  // `kinds` are kinds of GPUs (model and memory); what an ask takes of one depends on it.
  struct Kind {
    ModelId model = 0;
    std::uint64_t memory = 0;
    friend bool operator==(const Kind&, const Kind&) = default;
  };

  void prepare(std::span<const Kind> kinds, std::span<const Typical> typical);

  // Mean thousandths of a GPU that stay idle on a node with about so many CPUs, more or less by
  // half of the spread, and so much free on each of its GPUs, which are all of one kind. Entries of
  // `free` are above zero.
  [[nodiscard]] double idle_after(std::size_t kind, std::int64_t cpu_milli, std::int64_t cpu_spread,
                                  std::span<const std::uint16_t> free) const;

  // Below this nothing that usually comes and wants a GPU of this kind fits any more.
  [[nodiscard]] std::int64_t least_cpu(std::size_t kind) const { return sets_[kind].least_cpu; }
  [[nodiscard]] std::uint32_t least_part(std::size_t kind) const { return sets_[kind].least_part; }

 private:
  static constexpr std::size_t kSequences = 64;
  // A sequence is made of stretches of so many requests, within each of which the largest come
  // first. All together have as many as a word has bits.
  static constexpr std::array<std::size_t, 3> kStretches{8, 24, 32};
  static constexpr std::size_t kLength = 64;
  // Different requests for one kind of GPU, at most: the rarest of more are left out.
  static constexpr std::size_t kMostRanks = 255;
  // CPUs are counted in these, so that a table can tell what there are enough of.
  static constexpr std::int32_t kCpuUnitMilli = 50;
  static constexpr std::int64_t kMostCpuMilli = 4'000'000;

  // What a request takes. Equal ones have one rank, the largest the lowest.
  struct Step {
    std::int32_t cpu = 0;     // units
    std::int16_t part = 0;    // of one GPU, in thousandths
    std::int16_t whole = 0;   // GPUs
    std::uint32_t share = 0;  // both together, in thousandths
    friend bool operator==(const Step&, const Step&) = default;
  };
  // The sequences for one kind of GPU. The next request that fits is found by sets of places in the
  // sequence, a bit for each: those still to come, those that fit on the GPUs, and those for which
  // there are CPUs.
  struct Set {
    std::int64_t least_cpu = 0;
    std::uint32_t least_part = 0;
    std::vector<Step> steps;               // by rank
    std::vector<std::uint8_t> ranks;       // [sequence][place]
    std::vector<std::uint64_t> want_gpus;  // [sequence]
    std::size_t cpu_levels = 1;
    std::vector<std::uint16_t> level_of_cpu;  // by units: how many amounts are not above
    std::vector<std::uint64_t> fit_cpu;       // [sequence][level]
    // Levels of what is free on the GPUs: by the largest part as long as none is wholly free, then,
    // from Share::kWhole on, by the number of whole ones.
    std::size_t gpu_levels = 1;
    std::array<std::uint16_t, Share::kWhole + kMaxDevices + 1> level_of_gpus{};
    std::vector<std::uint64_t> fit_gpus;  // [sequence][level]
  };

  static void lay_out_levels(Set& set);
  static void put(Set& set, std::size_t sequence, std::size_t place, std::size_t rank);
  // Thousandths that all sequences together take.
  [[nodiscard]] static std::uint64_t taken(const Set& set, std::int64_t cpu_milli,
                                           std::int64_t cpu_spread,
                                           std::span<const std::uint16_t> free);

  std::vector<Set> sets_;
};

}  // namespace divvy::place
