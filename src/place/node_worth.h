// What the rest of a node is worth, as a cost: lower is better. It is how much would stay idle
// after the usual requests have filled it (node_fill.h), less a reward for room that members with
// several GPUs could still use. Remembered by what is left on the node, because nodes in the same
// state are worth the same.
//
// Where only a guess is wanted, what is remembered for the same GPUs with a few CPUs more or less
// will do: most nodes that are looked at do not win.
//
// What is remembered does not fit into the near caches. So a state is made into a key first, and
// whoever has many of them asks for all their memory before the first is looked at. Used by one
// thread.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "place/cluster.h"
#include "place/node_fill.h"
#include "place/row_index.h"
#include "place/workload.h"

namespace divvy::place {

class NodeWorth {
 public:
  void prepare(const Cluster& cluster, const Workload& workload);

  using Free = std::array<std::uint16_t, kMaxDevices>;

  // Which state: a node of a shape with so many CPUs and so much free on its GPUs.
  struct Key {
    std::uint64_t row = 0;
    std::uint32_t cell = 0;
    std::uint32_t at = RowIndex::kNowhere;  // the row's number as far as it was looked up
    // Nothing usual fits any more: what is idle stays idle.
    bool lost = false;
    std::uint32_t idle = 0;
  };
  [[nodiscard]] Key key_of(ShapeId shape, std::int64_t cpu_milli, const Free& free) const;

  // Ask for the memory in which it is remembered: first the one, for all keys, then the other.
  void prefetch_row(const Key& key) const { rows_.prefetch(key.row); }
  void prefetch_cell(Key& key) const;

  // What the key's state costs; `free` is that of the key.
  [[nodiscard]] float cost(ShapeId shape, Key key, const Free& free);
  // What is remembered of that, or of the same GPUs with a few CPUs more or less.
  struct Known {
    float cost = 0;
    bool exact = false;
  };
  [[nodiscard]] std::optional<Known> known(Key& key) const;

  // How much more nodes of this shape are wanted than there are: the sum, over the usual asks that
  // they can host, of an ask's part of the demand over the part of the GPUs that can host it.
  [[nodiscard]] float scarcity(ShapeId shape) const { return shapes_[shape].scarcity; }

 private:
  // Free CPUs are told apart by so many equal steps.
  static constexpr std::size_t kCells = 64;
  // In halves: an array of floats would not stay in the caches.
  struct alignas(64) Row {
    std::array<std::int16_t, kCells> cells;
  };

  struct OfShape {
    std::uint8_t devices = 0;
    std::size_t kind = 0;
    std::int64_t cpu_milli = 0;
    std::int64_t step = 1;  // CPUs of one cell
    std::uint64_t key = 0;
    float scarcity = 0;
  };
  // An ask for several GPUs, with what an additional one of it counts.
  struct Several {
    std::uint32_t whole = 0;
    std::int64_t cpu = 0;
    ModelSet models = 0;
    double worth = 0;
  };

  void learn_loads(const Cluster& cluster, const std::vector<Typical>& all);
  [[nodiscard]] double work_out(const OfShape& shape, std::size_t cell, const Free& free) const;

  NodeFill fill_;
  std::vector<NodeFill::Kind> kinds_;
  std::vector<OfShape> shapes_;
  std::vector<Several> several_;
  std::array<std::uint64_t, Share::kWhole + 1> hash_of_free_{};
  RowIndex rows_;
  std::vector<Row> cells_;  // by row
};

}  // namespace divvy::place
