// Who the tenants are and how they stand: what only looks.
#include <algorithm>
#include <charconv>

#include "agent/tenants.h"
#include "base/text.h"

namespace divvy::agent {
namespace {

std::optional<UsedShare> used_share(const share::LeaseReport& lease,
                                    const share::SliceActivity& activity) {
  if (activity.used_share) return UsedShare{*activity.used_share, UsedShare::By::kDriver};
  // Without a context nothing can have run.
  const bool gates_know = (lease.gated && !lease.gates_unavailable) || !activity.present;
  if (!gates_know) return std::nullopt;
  return UsedShare{activity.present ? lease.used_share : 0, UsedShare::By::kGates};
}

}  // namespace

Result<model::TenantId> Tenants::find(const std::string& text) const {
  const std::lock_guard lock(mutex_);
  // A number first: no name can stand for somebody else's.
  std::uint64_t number = 0;
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (code == std::errc() && end == text.data() + text.size() &&
      records().contains(model::TenantId(number))) {
    return model::TenantId(number);
  }
  for (const auto& [id, record] : records()) {
    if (record.name == text) return id;
  }
  std::vector<std::string> names;
  names.reserve(records().size());
  for (const auto& [id, record] : records()) names.push_back(record.name);
  std::string advice = "`divvy ps` lists the tenants";
  if (const auto meant = did_you_mean(text, std::span<const std::string>(names))) {
    advice = "did you mean " + *meant + "?";
  }
  return err(ErrorCode::kNotFound, "there is no tenant \"{}\"; {}",
             escape_for_terminal(text.substr(0, 60)), advice);
}

std::vector<TenantView> Tenants::list() const {
  registrar_->reap();
  const std::lock_guard lock(mutex_);
  const auto reports = registrar_->report();
  const auto leases = parts_.arbiter.report();
  std::vector<TenantView> result;
  for (const auto& [id, record] : records()) {
    TenantView view;
    view.record = record;
    view.gpus = gpus_of(record);
    const auto report = std::ranges::find(reports, id, &share::TenantReport::tenant);
    if (report != reports.end()) view.report = *report;
    for (int i = 0; i < static_cast<int>(record.slices.size()); ++i) {
      const auto lease =
          std::ranges::find_if(leases, [wanted = record.id, i](const share::LeaseReport& one) {
            return one.tenant == wanted && one.slice == i;
          });
      view.leases.push_back(lease != leases.end() ? *lease
                                                  : share::LeaseReport{.tenant = id, .slice = i});
    }
    view.report.slices.resize(record.slices.size());
    view.report.activity.resize(record.slices.size());
    for (std::size_t i = 0; i < record.slices.size(); ++i) {
      view.used.push_back(used_share(view.leases[i], view.report.activity[i]));
    }
    result.push_back(std::move(view));
  }
  return result;
}

std::vector<ledger::TenantRecord> Tenants::all() const {
  const std::lock_guard lock(mutex_);
  std::vector<ledger::TenantRecord> result;
  result.reserve(records().size());
  for (const auto& [id, record] : records()) result.push_back(record);
  return result;
}

std::optional<TenantView> Tenants::get(model::TenantId tenant) const {
  for (TenantView& view : list()) {
    if (view.record.id == tenant) return std::move(view);
  }
  return std::nullopt;
}

ledger::Slices Tenants::slices() const {
  const std::lock_guard lock(mutex_);
  return slices_;
}

}  // namespace divvy::agent
