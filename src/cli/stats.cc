#include "cli/stats.h"

#include <algorithm>
#include <boost/json.hpp>

#include "base/text.h"
#include "cli/answer.h"
#include "cli/job_view.h"

namespace divvy::cli {
namespace {

namespace json = boost::json;

// The accessors throw where a field is missing or of another kind; parse_stats catches.
std::uint64_t number(const json::object& from, std::string_view name) {
  return from.at(name).to_number<std::uint64_t>();
}

std::uint32_t small(const json::object& from, std::string_view name) {
  return static_cast<std::uint32_t>(std::min<std::uint64_t>(number(from, name), 1'000'000));
}

std::string text(const json::object& from, std::string_view name) {
  const json::value& value = from.at(name);
  if (value.is_null()) return {};
  return escape_for_terminal(std::string_view(value.as_string()));
}

SliceStats slice_from(const json::object& from) {
  SliceStats slice;
  slice.gpu = small(from.at("gpu").as_object(), "index");
  slice.share = Share(small(from, "shareThousandths"));
  slice.capped = from.at("capped").as_bool();
  slice.memory_used = Bytes(number(from, "memoryUsedBytes"));
  slice.memory_limit = Bytes(number(from, "memoryLimitBytes"));
  slice.memory_peak = Bytes(number(from, "memoryPeakBytes"));
  if (!from.at("usedShareThousandths").is_null()) {
    slice.used = small(from, "usedShareThousandths");
  }
  slice.waited = small(from, "waitedShareThousandths");
  return slice;
}

TenantStats tenant_from(const json::object& from) {
  TenantStats tenant;
  tenant.id = number(from, "id");
  tenant.name = text(from, "name");
  tenant.user = text(from, "user");
  tenant.tenant_class = text(from, "class");
  tenant.state = text(from, "state");
  tenant.command = text(from, "command");
  for (const json::value& item : from.at("slices").as_array()) {
    tenant.slices.push_back(slice_from(item.as_object()));
  }
  return tenant;
}

}  // namespace

std::uint64_t TenantStats::used() const {
  std::uint64_t sum = 0;
  for (const SliceStats& slice : slices) sum += slice.used.value_or(0);
  return sum;
}

std::uint64_t TenantStats::waited() const {
  std::uint64_t most = 0;
  for (const SliceStats& slice : slices) most = std::max<std::uint64_t>(most, slice.waited);
  return most;
}

Bytes TenantStats::memory() const {
  std::uint64_t sum = 0;
  for (const SliceStats& slice : slices) sum += slice.memory_used.count();
  return Bytes(sum);
}

std::uint32_t Stats::used_on(std::uint32_t gpu) const {
  std::uint32_t sum = 0;
  for (const TenantStats& tenant : tenants) {
    for (const SliceStats& slice : tenant.slices) {
      if (slice.gpu == gpu) sum += slice.used.value_or(0);
    }
  }
  return std::min<std::uint32_t>(sum, Share::kWhole);
}

Bytes Stats::memory_on(std::uint32_t gpu) const {
  std::uint64_t sum = 0;
  for (const TenantStats& tenant : tenants) {
    for (const SliceStats& slice : tenant.slices) {
      if (slice.gpu == gpu) sum += slice.memory_used.count();
    }
  }
  return Bytes(sum);
}

Result<Stats> parse_stats(const std::string& document) {
  try {
    const json::value value = json::parse(document);
    const json::object& from = value.as_object();
    Stats stats;
    stats.hostname = text(from, "hostname");
    stats.simulated = from.at("simulated").as_bool();
    stats.waiting = number(from, "waiting");
    for (const json::value& item : from.at("gpus").as_array()) {
      const json::object& gpu = item.as_object();
      stats.gpus.push_back({small(gpu, "index"), text(gpu, "model"),
                            Bytes(number(gpu, "memoryBytes")),
                            Share(small(gpu, "freeShareThousandths")), text(gpu, "unusable")});
    }
    for (const json::value& item : from.at("tenants").as_array()) {
      stats.tenants.push_back(tenant_from(item.as_object()));
    }
    return stats;
  } catch (const std::exception& error) {
    return err(not_understood(error.what()));
  }
}

void add_waiting_jobs(Stats& stats, const std::string& document) {
  const auto page = Answer::parse(document);
  if (!page) return;
  for (const Answer& job : (*page)["items"].items()) {
    stats.jobs.push_back({static_cast<std::uint64_t>(job["id"].number().value_or(0)),
                          job["name"].text(), job["owner"].text(), job["queue"].text(),
                          job_gpu_text(job)});
  }
  stats.more_jobs = !(*page)["next"].empty();
}

void History::add(const Stats& stats) {
  for (const GpuStats& gpu : stats.gpus) {
    std::deque<std::uint32_t>& looks = used_[gpu.index];
    looks.push_back(stats.used_on(gpu.index));
    if (looks.size() > kLooks) looks.pop_front();
  }
}

std::vector<std::uint32_t> History::of(std::uint32_t gpu) const {
  const auto found = used_.find(gpu);
  if (found == used_.end()) return {};
  return {found->second.begin(), found->second.end()};
}

}  // namespace divvy::cli
