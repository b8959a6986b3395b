#include "ledger/ledger_state.h"

#include <algorithm>

namespace divvy::ledger {
namespace {

// Adds or takes away what a tenant holds.
void count(std::map<model::GpuUuid, Share>& shares, const TenantRecord& record, bool add) {
  for (const model::Slice& slice : record.slices) {
    const auto held = shares.try_emplace(slice.gpu(), Share(0)).first;
    held->second = Share(add ? held->second.thousandths() + slice.share().thousandths()
                             : held->second.thousandths() - slice.share().thousandths());
    if (held->second == Share(0)) shares.erase(held);
  }
}

// What the tenants hold of a GPU, without one of them.
std::uint32_t held_by_others(const LedgerState& state, const model::GpuUuid& gpu,
                             const TenantRecord* one) {
  const auto held = state.shares.find(gpu);
  std::uint32_t sum = held == state.shares.end() ? 0 : held->second.thousandths();
  if (one == nullptr) return sum;
  for (const model::Slice& slice : one->slices) {
    if (slice.gpu() == gpu) sum -= slice.share().thousandths();
  }
  return sum;
}

struct Check {
  const LedgerState& state;

  Status operator()(const LedgerBegins&) const {
    if (state.begun) return err(ErrorCode::kDataLoss, "a second beginning");
    return {};
  }

  Status operator()(const TenantGranted& granted) const {
    if (state.tenants.contains(granted.record.id)) {
      return err(ErrorCode::kDataLoss, "tenant {} is there already", granted.record.id);
    }
    return fits(granted.record, nullptr);
  }

  Status operator()(const TenantChanged& changed) const {
    const auto found = state.tenants.find(changed.record.id);
    if (found == state.tenants.end()) {
      return err(ErrorCode::kDataLoss, "there is no tenant {} to change", changed.record.id);
    }
    return fits(changed.record, &found->second);
  }

  Status operator()(const TenantReleased& released) const {
    if (state.tenants.contains(released.tenant)) return {};
    return err(ErrorCode::kDataLoss, "there is no tenant {} to release", released.tenant);
  }

  Status operator()(const GpuCordoned&) const { return {}; }
  Status operator()(const GpuUncordoned&) const { return {}; }

  Status fits(const TenantRecord& record, const TenantRecord* instead_of) const {
    for (const model::Slice& slice : record.slices) {
      if (held_by_others(state, slice.gpu(), instead_of) + slice.share().thousandths() >
          Share::kWhole) {
        return err(ErrorCode::kDataLoss, "with tenant {} more than all of {} would be held",
                   record.id, slice.gpu());
      }
    }
    return {};
  }
};

struct Apply {
  LedgerState& state;

  void operator()(const LedgerBegins& begins) const {
    state.begun = true;
    state.boot = begins.boot;
    state.next_id = begins.next_id;
  }
  void operator()(const TenantGranted& granted) const {
    count(state.shares, granted.record, true);
    state.next_id = std::max(state.next_id, granted.record.id.next());
    state.tenants.emplace(granted.record.id, granted.record);
  }
  void operator()(const TenantChanged& changed) const {
    TenantRecord& record = state.tenants.at(changed.record.id);
    count(state.shares, record, false);
    count(state.shares, changed.record, true);
    record = changed.record;
  }
  void operator()(const TenantReleased& released) const {
    const auto found = state.tenants.find(released.tenant);
    count(state.shares, found->second, false);
    state.tenants.erase(found);
  }
  void operator()(const GpuCordoned& cordoned) const {
    state.cordons.insert_or_assign(cordoned.gpu, cordoned.cordon);
  }
  void operator()(const GpuUncordoned& uncordoned) const { state.cordons.erase(uncordoned.gpu); }
};

}  // namespace

Status LedgerState::check(const LedgerChange& change) const {
  if (!begun && !std::holds_alternative<LedgerBegins>(change)) {
    return err(ErrorCode::kDataLoss, "it is not a beginning");
  }
  return std::visit(Check{*this}, change);
}

Status LedgerState::apply(const LedgerChange& change) {
  DIVVY_RETURN_IF_ERROR(check(change));
  std::visit(Apply{*this}, change);
  return {};
}

std::vector<std::string> LedgerState::snapshot() const {
  std::vector<std::string> records;
  records.reserve(1 + tenants.size() + cordons.size());
  records.push_back(encode(LedgerBegins{boot, next_id}));
  for (const auto& [gpu, cordon] : cordons) records.push_back(encode(GpuCordoned{gpu, cordon}));
  for (const auto& [id, record] : tenants) records.push_back(encode(TenantGranted{record}));
  return records;
}

Replay replay(const JournalScan& scan) {
  Replay result;
  for (const JournalRecord& record : scan.records) {
    const auto change = decode_ledger_change(record.payload);
    const Status applied = change ? result.state.apply(*change) : err(change.error());
    if (!applied) {
      result.damage = {record.offset, fmt::format("record {} makes no sense: {}", record.sequence,
                                                  applied.error().message)};
      return result;
    }
  }
  result.damage = scan.damage;
  return result;
}

}  // namespace divvy::ledger
