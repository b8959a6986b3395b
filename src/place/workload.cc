#include "place/workload.h"

#include <algorithm>
#include <tuple>

namespace divvy::place {
namespace {

auto size_order(const Ask& ask) {
  const std::uint32_t each = ask.whole != 0 ? Share::kWhole : ask.part;
  const std::uint32_t gpus = ask.whole + (ask.wants_part() ? 1 : 0);
  return std::tuple(ask.cpu_milli, each, gpus, ask.part_memory, ask.whole_memory, ask.models);
}

}  // namespace

void Workload::count(const Ask& ask, std::uint64_t times) {
  Ask kept = ask;
  kept.ram = 0;
  const auto [found, is_new] = index_.try_emplace(kept, counts_.size());
  if (is_new) counts_.push_back({kept, 0, 0});
  counts_[found->second].count += times;
}

std::vector<Typical> Workload::all() const {
  std::vector<Typical> result = counts_;
  std::uint64_t total = 0;
  for (const Typical& typical : result) total += typical.count;
  for (Typical& typical : result) {
    typical.part = static_cast<double>(typical.count) / static_cast<double>(total);
  }
  const auto before = [this](const Typical& a, const Typical& b) {
    if (a.count != b.count) return a.count > b.count;
    if (size_order(a.ask) != size_order(b.ask)) return size_order(a.ask) > size_order(b.ask);
    return index_.at(a.ask) < index_.at(b.ask);
  };
  std::ranges::sort(result, before);
  return result;
}

std::vector<Typical> Workload::typical(double covered) const {
  std::vector<Typical> result = all();
  double sum = 0;
  std::size_t kept = 0;
  while (kept < result.size() && sum < covered - 1e-12) sum += result[kept++].part;
  result.resize(kept);
  for (Typical& typical : result) typical.part /= sum;
  return result;
}

}  // namespace divvy::place
