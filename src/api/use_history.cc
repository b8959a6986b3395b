#include "api/use_history.h"

#include <algorithm>
#include <boost/json.hpp>

#include "agent/waiting.h"
#include "api/answers.h"
#include "api/handlers.h"

namespace divvy::api {
namespace {

namespace json = boost::json;

// A machine that is slow is asked again with the next step, and the daemon's end waits no longer.
constexpr std::chrono::seconds kPatience{2};
constexpr std::uint64_t kMebibyte = 1U << 20U;

std::uint64_t number_at(const json::object& object, std::string_view name) {
  const json::value* const value = object.if_contains(name);
  if (value == nullptr || !value->is_number()) return 0;
  boost::system::error_code code;
  const auto number = value->to_number<std::uint64_t>(code);
  return code ? 0 : number;
}

}  // namespace

void UseHistory::add(const model::MemberKey& member, const std::string& gpu, const Point& point) {
  const std::lock_guard lock(mutex_);
  const auto key = std::pair(member, gpu);
  if (!series_.contains(key) && series_.size() >= kMostSeries) {
    // The one that ended longest ago makes way.
    const auto newest = [](const auto& one) {
      const Rings& rings = one.second;
      return rings.fine.empty() ? 0 : rings.fine.back().unix_seconds;
    };
    series_.erase(std::ranges::min_element(series_, {}, newest));
  }
  Rings& rings = series_[key];
  rings.fine.push_back(point);
  if (rings.fine.size() > kFinePoints) age(rings);
}

// The oldest fine point becomes a part of a coarse one.
void UseHistory::age(Rings& rings) {
  const Point oldest = rings.fine.front();
  rings.fine.pop_front();
  rings.used += oldest.used_thousandths;
  rings.memory += oldest.memory_mebibytes;
  if (++rings.summed < kStepsPerCoarse) return;
  rings.coarse.push_back({oldest.unix_seconds,
                          static_cast<std::uint32_t>(rings.used / kStepsPerCoarse),
                          static_cast<std::uint32_t>(rings.memory / kStepsPerCoarse)});
  rings.used = 0;
  rings.memory = 0;
  rings.summed = 0;
  if (rings.coarse.size() > kCoarsePoints) rings.coarse.pop_front();
}

std::vector<UseHistory::Series> UseHistory::of(model::JobId job, std::uint32_t attempt) const {
  const std::lock_guard lock(mutex_);
  std::vector<Series> found;
  for (auto at = series_.lower_bound({model::MemberKey{job, attempt, 0}, std::string()});
       at != series_.end() && at->first.first.job == job && at->first.first.attempt == attempt;
       ++at) {
    Series series{at->first.first.rank, at->first.second, {}};
    const Rings& rings = at->second;
    series.points.reserve(rings.coarse.size() + rings.fine.size());
    series.points.insert(series.points.end(), rings.coarse.begin(), rings.coarse.end());
    series.points.insert(series.points.end(), rings.fine.begin(), rings.fine.end());
    found.push_back(std::move(series));
  }
  return found;
}

void add_tenants(UseHistory& history, const std::string& document, std::int64_t unix_seconds) {
  boost::system::error_code code;
  const json::value tenants = json::parse(document, code);
  if (code || !tenants.is_array()) return;
  for (const json::value& tenant : tenants.get_array()) {
    if (!tenant.is_object()) continue;
    const json::value* const slices = tenant.get_object().if_contains("slices");
    if (slices == nullptr || !slices->is_array()) continue;
    const model::MemberKey member{
        .job = model::JobId(number_at(tenant.get_object(), "job")),
        .attempt = static_cast<std::uint32_t>(number_at(tenant.get_object(), "attempt")),
        .rank = static_cast<std::uint32_t>(number_at(tenant.get_object(), "rank"))};
    if (member.job == model::JobId()) continue;
    for (const json::value& slice : slices->get_array()) {
      if (!slice.is_object()) continue;
      const json::value* const gpu = slice.get_object().if_contains("gpu");
      if (gpu == nullptr || !gpu->is_object()) continue;
      const json::value* const uuid = gpu->get_object().if_contains("uuid");
      if (uuid == nullptr || !uuid->is_string()) continue;
      const auto used = number_at(slice.get_object(), "usedShareThousandths");
      const auto memory = number_at(slice.get_object(), "memoryUsedBytes") / kMebibyte;
      history.add(
          member, std::string(uuid->get_string()),
          {unix_seconds, static_cast<std::uint32_t>(used), static_cast<std::uint32_t>(memory)});
    }
  }
}

UseSampler::~UseSampler() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void UseSampler::begin() {
  thread_ = std::thread([this] { run(); });
}

void UseSampler::run() {
  std::unique_lock lock(mutex_);
  while (!stopping_) {
    lock.unlock();
    sample();
    lock.lock();
    changed_.wait_for(lock, UseHistory::kStep, [this] { return stopping_; });
  }
}

void UseSampler::sample() const {
  const auto now =
      std::chrono::floor<std::chrono::seconds>(clock_.wall_now().time_since_epoch()).count();
  for (agent::Agent* const agent : agents_.all()) {
    const auto tenants =
        agent::ask_and_wait(*agent, agent::ViewOrder{agent::View::kTenants, {}}, kPatience);
    if (tenants) add_tenants(history_, tenants->json, now);
  }
}

Answer list_use(const Call& call, const model::Job& job) {
  json::array items;
  const auto all = call.parts.history == nullptr ? std::vector<UseHistory::Series>()
                                                 : call.parts.history->of(job.id, job.attempt);
  for (const UseHistory::Series& series : all) {
    json::array times;
    json::array used;
    json::array memory;
    for (const UseHistory::Point& point : series.points) {
      times.emplace_back(point.unix_seconds * 1000);
      used.emplace_back(point.used_thousandths);
      memory.emplace_back(point.memory_mebibytes);
    }
    items.push_back(json::object{{"rank", series.rank},
                                 {"gpu", series.gpu},
                                 {"unixMilliseconds", std::move(times)},
                                 {"usedShareThousandths", std::move(used)},
                                 {"memoryUsedMebibytes", std::move(memory)}});
  }
  return answer(200, listed("UseList", std::move(items)));
}

}  // namespace divvy::api
