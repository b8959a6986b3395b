// A request made ready for one cluster: names became numbers, so that looking at a node takes no
// string. Equal asks have equal numbers, and whatever is remembered about an ask is remembered
// once.
#pragma once

#include <cstdint>
#include <limits>

#include "base/ids.h"
#include "base/units.h"
#include "place/request.h"

namespace divvy::place {

using AskId = StrongId<struct AskIdTag>;
using NodeId = StrongId<struct NodeIdTag>;
using ModelId = std::uint8_t;    // of a GPU model in this cluster
using ModelSet = std::uint64_t;  // a bit for each
inline constexpr std::size_t kMaxModels = 64;

// What one member asks of a node, apart from which nodes it may use at all.
struct Ask {
  std::uint32_t whole = 0;
  std::uint32_t part = 0;          // thousandths; 0 with part_memory: as much as the memory is
  std::uint64_t part_memory = 0;   // bytes; 0: the same part as `part`
  std::uint64_t whole_memory = 0;  // every whole GPU has at least this
  std::int64_t cpu_milli = 0;
  std::int64_t ram = 0;
  ModelSet models = std::numeric_limits<ModelSet>::max();
  Closeness gpus_near = Closeness::kAnywhere;
  bool near_required = false;
  // The same for equal asks of one placer, from 0 on: for whoever remembers something about asks.
  // Set by the placer; says nothing about what is asked.
  std::uint32_t number = 0;

  friend bool operator==(const Ask& a, const Ask& b) {
    return a.whole == b.whole && a.part == b.part && a.part_memory == b.part_memory &&
           a.whole_memory == b.whole_memory && a.cpu_milli == b.cpu_milli && a.ram == b.ram &&
           a.models == b.models && a.gpus_near == b.gpus_near && a.near_required == b.near_required;
  }

  [[nodiscard]] bool wants_part() const { return part != 0 || part_memory != 0; }
  [[nodiscard]] bool wants_gpu() const { return whole != 0 || wants_part(); }
  // In thousandths of a GPU, a request by memory counted as nothing.
  [[nodiscard]] std::uint32_t share() const { return whole * Share::kWhole + part; }
};

struct AskHash {
  [[nodiscard]] std::size_t operator()(const Ask& ask) const noexcept;
};

// Where one member goes, and what it takes there.
struct Spot {
  NodeId node;
  std::uint16_t whole = 0;        // a bit for each GPU that it has for itself
  std::int16_t part_device = -1;  // the GPU of which it has a part
  std::uint16_t part = 0;         // thousandths of that
  std::uint64_t part_memory = 0;
  std::int64_t cpu_milli = 0;
  std::int64_t ram = 0;
  friend bool operator==(const Spot&, const Spot&) = default;

  [[nodiscard]] std::uint32_t share() const;
};

}  // namespace divvy::place
