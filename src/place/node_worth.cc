#include "place/node_worth.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace divvy::place {
namespace {

// The usual asks: those that make up this much of the workload.
constexpr double kUsual = 0.99;
// Weight of the room for members with several GPUs.
constexpr double kSeveralWeight = 0.25;
// So many cells to either side are near enough for a guess.
constexpr std::size_t kReach = 8;
constexpr std::int16_t kUnknown = std::numeric_limits<std::int16_t>::min();
constexpr double kMostCost = 16'000;

std::uint64_t scramble(std::uint64_t value) {
  value += 0x9e3779b97f4a7c15;
  value = (value ^ value >> 30) * 0xbf58476d1ce4e5b9;
  value = (value ^ value >> 27) * 0x94d049bb133111eb;
  return value ^ value >> 31;
}

bool hosts(const NodeShape& shape, const Ask& ask) {
  return (shape.models & ask.models) != 0 &&
         shape.devices >= ask.whole + (ask.wants_part() ? 1 : 0) &&
         shape.cpu_milli >= ask.cpu_milli;
}

double demand(const Typical& typical) {
  return static_cast<double>(typical.count) * std::max(typical.ask.share(), 1U);
}

// Without any knowledge: small parts, single GPUs and a few larger ones, with their part of the
// CPUs.
Workload usual_mix(const Cluster& cluster) {
  std::int64_t cpu = 0;
  std::int64_t gpus = 0;
  for (std::uint32_t i = 0; i < cluster.size(); ++i) {
    cpu += cluster.shape(NodeId(i)).cpu_milli;
    gpus += cluster.shape(NodeId(i)).devices;
  }
  const std::int64_t each = gpus == 0 ? 0 : cpu / gpus / 2;
  Workload mix;
  for (const auto& [whole, part, times] : {std::array<std::uint32_t, 3>{0, 250, 20},
                                           {0, 500, 20},
                                           {1, 0, 40},
                                           {2, 0, 10},
                                           {4, 0, 5},
                                           {8, 0, 5}}) {
    Ask ask;
    ask.whole = whole;
    ask.part = part;
    ask.cpu_milli = each * (whole * 1000 + part) / 1000;
    mix.count(ask, times);
  }
  return mix;
}

}  // namespace

void NodeWorth::prepare(const Cluster& cluster, const Workload& given) {
  const Workload workload = given.empty() ? usual_mix(cluster) : given;
  kinds_.clear();
  shapes_.clear();
  rows_.clear();
  cells_.clear();
  for (std::size_t i = 0; i <= Share::kWhole; ++i) {
    // Told apart to the hundredth: finer differences do not matter and would make every state new.
    hash_of_free_[i] = i < 10 ? 0 : scramble(i / 10);
  }
  std::int64_t most_cpu = 1;
  for (const NodeShape& shape : cluster.shapes()) most_cpu = std::max(most_cpu, shape.cpu_milli);
  for (const NodeShape& shape : cluster.shapes()) {
    const NodeFill::Kind kind{shape.model[0], shape.memory[0]};
    auto found = std::ranges::find(kinds_, kind);
    if (found == kinds_.end()) found = kinds_.insert(kinds_.end(), kind);
    OfShape of;
    of.devices = shape.devices;
    of.kind = static_cast<std::size_t>(found - kinds_.begin());
    of.cpu_milli = shape.cpu_milli;
    of.step =
        (most_cpu + static_cast<std::int64_t>(kCells) - 1) / static_cast<std::int64_t>(kCells);
    // The last cell ends where the node does, so that only nodes with as many CPUs share it.
    of.key = scramble(~std::uint64_t{of.kind}) + scramble(static_cast<std::uint64_t>(of.cpu_milli));
    shapes_.push_back(of);
  }
  fill_.prepare(kinds_, workload.typical(kUsual));
  learn_loads(cluster, workload.all());
}

void NodeWorth::learn_loads(const Cluster& cluster, const std::vector<Typical>& all) {
  several_.clear();
  std::vector<double> capacity(shapes_.size());
  double gpus = 0;
  for (std::uint32_t i = 0; i < cluster.size(); ++i) {
    const NodeState& state = cluster.state(NodeId(i));
    capacity[state.shape] += shapes_[state.shape].devices;
    gpus += shapes_[state.shape].devices;
  }
  double total = 0;
  for (const Typical& typical : all) {
    if (typical.ask.wants_gpu()) total += demand(typical);
  }
  for (const Typical& typical : all) {
    const Ask& ask = typical.ask;
    if (!ask.wants_gpu()) continue;
    double hosting = 0;
    for (std::size_t s = 0; s < shapes_.size(); ++s) {
      if (hosts(cluster.shapes()[s], ask)) hosting += capacity[s];
    }
    if (hosting <= 0) continue;
    const double load = demand(typical) / total * gpus / hosting;
    for (std::size_t s = 0; s < shapes_.size(); ++s) {
      if (hosts(cluster.shapes()[s], ask)) shapes_[s].scarcity += static_cast<float>(load);
    }
    if (ask.whole > 1)
      several_.push_back({ask.whole, ask.cpu_milli, ask.models, load * ask.share()});
  }
}

double NodeWorth::work_out(const OfShape& shape, std::size_t cell, const Free& free) const {
  std::array<std::uint16_t, kMaxDevices> left{};
  std::size_t count = 0;
  std::uint32_t whole = 0;
  for (std::size_t i = 0; i < shape.devices; ++i) {
    if (free[i] == 0) continue;
    left[count++] = free[i];
    if (free[i] == Share::kWhole) ++whole;
  }
  const std::int64_t low = static_cast<std::int64_t>(cell) * shape.step;
  // The same cost for the same GPUs in any order.
  std::sort(left.begin(), left.begin() + static_cast<std::ptrdiff_t>(count));
  const std::int64_t middle = std::min(low + shape.step / 2, shape.cpu_milli);
  const double cost = fill_.idle_after(shape.kind, middle, shape.step, {left.data(), count});
  double room = 0;
  for (const Several& several : several_) {
    if (whole < several.whole || (several.models >> kinds_[shape.kind].model & 1) == 0) continue;
    const std::int64_t by_cpu = several.cpu == 0 ? whole : low / several.cpu;
    room +=
        several.worth * static_cast<double>(std::min<std::int64_t>(whole / several.whole, by_cpu));
  }
  return cost - kSeveralWeight * room;
}

NodeWorth::Key NodeWorth::key_of(ShapeId shape_id, std::int64_t cpu_milli, const Free& free) const {
  const OfShape& shape = shapes_[shape_id];
  Key key;
  key.row = shape.key;
  std::uint16_t most = 0;
  for (std::size_t i = 0; i < shape.devices; ++i) {
    key.row += hash_of_free_[free[i]];
    key.idle += free[i];
    most = std::max(most, free[i]);
  }
  key.lost = most < fill_.least_part(shape.kind) || cpu_milli < fill_.least_cpu(shape.kind);
  const std::int64_t cell = std::max<std::int64_t>(cpu_milli, 0) / shape.step;
  key.cell = static_cast<std::uint32_t>(std::min<std::int64_t>(cell, kCells - 1));
  return key;
}

void NodeWorth::prefetch_cell(Key& key) const {
  key.at = rows_.find(key.row);
  if (key.at != RowIndex::kNowhere) __builtin_prefetch(&cells_[key.at].cells[key.cell]);
}

float NodeWorth::cost(ShapeId shape_id, Key key, const Free& free) {
  if (key.lost) return static_cast<float>(key.idle);
  if (key.at == RowIndex::kNowhere) key.at = rows_.find_or_add(key.row);
  if (key.at == cells_.size()) cells_.emplace_back().cells.fill(kUnknown);
  std::int16_t& remembered = cells_[key.at].cells[key.cell];
  if (remembered == kUnknown) {
    const double cost =
        std::clamp(work_out(shapes_[shape_id], key.cell, free), -kMostCost, kMostCost);
    remembered = static_cast<std::int16_t>(std::lround(2 * cost));
  }
  return static_cast<float>(remembered) / 2;
}

std::optional<NodeWorth::Known> NodeWorth::known(Key& key) const {
  if (key.lost) return Known{static_cast<float>(key.idle), true};
  // It may have come since it was looked up.
  if (key.at == RowIndex::kNowhere) key.at = rows_.find(key.row);
  if (key.at == RowIndex::kNowhere) return std::nullopt;
  const auto& row = cells_[key.at].cells;
  const auto half = [](int twice) { return static_cast<float>(twice) / 2; };
  if (row[key.cell] != kUnknown) return Known{half(row[key.cell]), true};
  for (std::size_t step = 1; step <= kReach; ++step) {
    const int above = key.cell + step < kCells ? row[key.cell + step] : kUnknown;
    const int below = key.cell >= step ? row[key.cell - step] : kUnknown;
    if (above != kUnknown && below != kUnknown) return Known{half(above + below) / 2, false};
    if (above != kUnknown) return Known{half(above), false};
    if (below != kUnknown) return Known{half(below), false};
  }
  return std::nullopt;
}

}  // namespace divvy::place
