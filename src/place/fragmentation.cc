#include "place/fragmentation.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

namespace divvy::place {
namespace {

// Some hundred megabytes; a cluster in which so much happens can afford to begin again.
constexpr std::size_t kMostRemembered = 2'000'000;

// What one typical ask finds on the GPUs of a node.
struct Found {
  std::uint32_t whole = 0;    // GPUs that could be given to it as a whole
  std::uint32_t part = 0;     // GPUs that could give it its part
  std::uint32_t useless = 0;  // thousandths on GPUs that can do neither
};

Found look(const Ask& ask, const NodeShape& shape,
           const std::array<std::uint16_t, kMaxDevices>& free) {
  Found found;
  for (std::size_t i = 0; i < shape.devices; ++i) {
    const bool allowed = (ask.models >> shape.model[i] & 1) != 0;
    const std::uint32_t part = ask.part_memory == 0 ? ask.part : part_size(ask, shape.memory[i]);
    const bool gives_part = allowed && ask.wants_part() && free[i] >= part;
    const bool gives_whole =
        allowed && ask.whole > 0 && free[i] == Share::kWhole && shape.memory[i] >= ask.whole_memory;
    found.part += gives_part ? 1 : 0;
    found.whole += gives_whole ? 1 : 0;
    if (!gives_part && !gives_whole) found.useless += free[i];
  }
  return found;
}

bool enough(const Ask& ask, const Found& found) {
  if (found.whole < ask.whole) return false;
  if (!ask.wants_part()) return true;
  // A GPU that is given as a whole cannot give the part as well.
  return ask.whole == 0 ? found.part > 0 : found.part > ask.whole;
}

bool all_alike(const NodeShape& shape) {
  for (std::size_t i = 1; i < shape.devices; ++i) {
    if (shape.model[i] != shape.model[0] || shape.memory[i] != shape.memory[0]) return false;
  }
  return true;
}

}  // namespace

Fragmentation::Fragmentation(std::vector<Typical> typical) : typical_(std::move(typical)) {
  for (const Typical& each : typical_) cpu_steps_.push_back(each.ask.cpu_milli);
  std::ranges::sort(cpu_steps_);
  const auto repeated = std::ranges::unique(cpu_steps_);
  cpu_steps_.erase(repeated.begin(), repeated.end());
}

double Fragmentation::now(const NodeView& node) {
  return at(node, node.state.cpu_free, node.state.free);
}

double Fragmentation::after(const NodeView& node, const Outcome& outcome) {
  return at(node, outcome.cpu_free, outcome.free);
}

double Fragmentation::at(const NodeView& node, std::int64_t cpu_free, const Free& free) {
  const auto step = std::ranges::upper_bound(cpu_steps_, cpu_free) - cpu_steps_.begin();
  Key key{.free = free, .shape = node.state.shape, .cpu_step = static_cast<std::uint32_t>(step)};
  if (all_alike(node.shape)) {
    std::ranges::sort(key.free.begin(), key.free.begin() + node.shape.devices);
  }
  if (const auto found = known_.find(key); found != known_.end()) return found->second;
  if (known_.size() >= kMostRemembered) known_.clear();
  const double value = compute(node.shape, cpu_free, free);
  known_.emplace(key, value);
  return value;
}

double Fragmentation::compute(const NodeShape& shape, std::int64_t cpu_free,
                              const Free& free) const {
  std::uint32_t idle = 0;
  for (std::size_t i = 0; i < shape.devices; ++i) idle += free[i];
  double sum = 0;
  for (const Typical& typical : typical_) {
    const Found found = look(typical.ask, shape, free);
    const bool fits =
        typical.ask.wants_gpu() && typical.ask.cpu_milli <= cpu_free && enough(typical.ask, found);
    sum += typical.part * (fits ? found.useless : idle);
  }
  return sum;
}

std::size_t Fragmentation::KeyHash::operator()(const Key& key) const noexcept {
  std::uint64_t hash = std::uint64_t{key.shape} << 32 | key.cpu_step;
  for (std::size_t i = 0; i < key.free.size(); i += 4) {
    std::uint64_t four = 0;
    std::memcpy(&four, &key.free[i], sizeof(four));
    hash = (hash ^ four) * 0x9e3779b97f4a7c15;
    hash ^= hash >> 32;
  }
  return hash;
}

}  // namespace divvy::place
