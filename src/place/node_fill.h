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
  static constexpr std::size_t kSamples = 64;
  static constexpr std::size_t kLength = 128;

  // Positions in a sequence.
  struct Positions {
    std::uint64_t first = 0;
    std::uint64_t second = 0;
    void add(std::size_t position) {
      (position < 64 ? first : second) |= std::uint64_t{1} << (position % 64);
    }
  };
  struct Step {
    std::int32_t cpu = 0;
    std::uint16_t size = 0;   // of each GPU, in thousandths
    std::uint16_t count = 0;  // of GPUs
  };
  // The sequences for one kind of GPU. Which positions fit is told by three masks: by the largest
  // part that is free, by the number of whole GPUs, and by the CPUs. The next one that is placed is
  // the first position that is in all of them.
  struct Set {
    std::int64_t least_cpu = 0;
    std::uint32_t least_part = 0;
    std::vector<std::int32_t> cpus;          // every amount that is asked for, ascending
    std::vector<std::uint8_t> level_of_cpu;  // by steps of kCpuStep: how many of them are not above
    std::array<std::uint8_t, Share::kWhole + 1> level_of_part{};
    std::size_t part_levels = 0;
    std::vector<Step> steps;        // [sample][position]
    std::vector<Positions> parts;   // [sample][level]; members without GPU are in all of them
    std::vector<Positions> wholes;  // [sample][whole GPUs]
    std::vector<Positions> by_cpu;  // [sample][level]
  };
  static constexpr std::int64_t kCpuStep = 64;

  void index(Set& set);
  [[nodiscard]] std::size_t cpu_level(const Set& set, std::int64_t cpu) const;
  [[nodiscard]] std::uint32_t fill_once(const Set& set, std::size_t sample, std::int64_t cpu,
                                        std::span<const std::uint16_t> free) const;

  std::vector<Set> sets_;
};

}  // namespace divvy::place
