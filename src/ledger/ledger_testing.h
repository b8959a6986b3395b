// Tenants to write into ledgers, and a witness who knows what a ledger may say after a crash. Only
// for tests.
#pragma once

#include <gtest/gtest.h>

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "ledger/ledger.h"
#include "model/testing.h"
#include "sys/fake_disk.h"

namespace divvy::ledger {

inline TenantRecord test_tenant(std::uint64_t id, std::uint32_t share = 100,
                                std::uint64_t gpu = 1) {
  TenantRecord record;
  record.id = model::TenantId(id);
  record.name = fmt::format("train-{}", id);
  record.command = "python \"train\".py";
  record.uid = 1000;
  record.gid = 100;
  record.holder = model::Holder::kProcess;
  record.member = {model::JobId(id), 1, 0};
  record.root = {static_cast<pid_t>(4000 + id), 99'999};
  record.since_unix = 1'700'000'000;
  record.slices = {model::Slice::create(model::test_uuid(gpu), gib(1), Share(share),
                                        model::ShareKind::kGuarantee)
                       .value()};
  return record;
}

// What the bytes on the disk come to. The test fails where they are damaged.
inline LedgerState read_back(const sys::FakeDisk& disk) {
  const std::string bytes = disk.content(kLedgerFile);
  const Replay replayed = replay(scan_journal(bytes));
  EXPECT_FALSE(replayed.damage) << replayed.damage->offset << ": " << replayed.damage->reason;
  return replayed.state;
}

// Writes down everything that was asked of a ledger and what it answered. What was acknowledged
// must be there after a crash; what was refused, or was told to wait for its sync, may be there
// until something later is acknowledged.
class Witness {
 public:
  void attach(Ledger& ledger) { ledger_ = &ledger; }

  bool grant(const TenantRecord& record) {
    possible_[record.id] = {std::nullopt, record};
    return answered(ledger_->grant(record), record.id, record, Journal::Sync::kNow);
  }
  bool change(const TenantRecord& record) {
    may_become(record.id, record);
    return answered(ledger_->change(record), record.id, record, Journal::Sync::kNow);
  }
  bool release(model::TenantId id, Journal::Sync sync) {
    may_become(id, std::nullopt);
    const bool written = ledger_->release(id, sync).has_value();
    believed_.erase(id);
    if (written && sync == Journal::Sync::kNow) settle();
    return written;
  }
  bool set_cordon(const model::GpuUuid& gpu, const std::optional<model::Cordon>& cordon) {
    // Nothing is written, so nothing is settled.
    if (!cordon && !believed_cordons_.contains(gpu)) {
      return ledger_->set_cordon(gpu, cordon).has_value();
    }
    auto& possible = possible_cordons_[gpu];
    if (possible.empty()) possible.push_back(cordon_of(gpu));
    possible.push_back(cordon);
    if (!ledger_->set_cordon(gpu, cordon)) return false;
    if (cordon) {
      believed_cordons_.insert_or_assign(gpu, *cordon);
    } else {
      believed_cordons_.erase(gpu);
    }
    settle();
    return true;
  }

  [[nodiscard]] const std::map<model::TenantId, TenantRecord>& believed() const {
    return believed_;
  }

  // The ledger in memory is what was acknowledged.
  void compare_memory() const {
    EXPECT_EQ(ledger_->tenants(), believed_);
    EXPECT_EQ(ledger_->cordons(), believed_cordons_);
  }

  // After a crash, and believes from then on what it finds.
  void compare_after_crash(const Ledger& found) {
    std::map<model::TenantId, TenantRecord> all = believed_;
    all.insert(found.tenants().begin(), found.tenants().end());
    for (const auto& [id, record] : all) {
      EXPECT_TRUE(is_possible(id, tenant_of(found.tenants(), id))) << "tenant " << id.value();
    }
    for (const auto& [id, possible] : possible_) {
      EXPECT_TRUE(is_possible(id, tenant_of(found.tenants(), id))) << "tenant " << id.value();
    }
    std::map<model::GpuUuid, Share> shares;
    for (const auto& [id, record] : found.tenants()) {
      for (const model::Slice& slice : record.slices) {
        Share& held = shares.try_emplace(slice.gpu(), Share(0)).first->second;
        held = Share(held.thousandths() + slice.share().thousandths());
        EXPECT_LE(held.thousandths(), Share::kWhole);
      }
      EXPECT_TRUE(id < found.next_id());
    }
    const auto cordons = found.cordons();
    for (const auto& [gpu, cordon] : believed_cordons_) {
      EXPECT_TRUE(cordons.contains(gpu) || possible_cordons_.contains(gpu)) << gpu.str();
    }
    for (const auto& [gpu, cordon] : cordons) {
      const auto possible = possible_cordons_.find(gpu);
      const bool right = possible == possible_cordons_.end()
                             ? cordon_of(gpu) == cordon
                             : std::ranges::find(possible->second, std::optional(cordon)) !=
                                   possible->second.end();
      EXPECT_TRUE(right) << gpu.str();
    }
    believed_ = found.tenants();
    believed_cordons_ = cordons;
    // A ledger that could not be written at its start has made nothing certain.
    if (!found.trouble()) settle();
  }

 private:
  using MaybeTenant = std::optional<TenantRecord>;

  static MaybeTenant tenant_of(const std::map<model::TenantId, TenantRecord>& tenants,
                               model::TenantId id) {
    const auto found = tenants.find(id);
    return found == tenants.end() ? std::nullopt : MaybeTenant(found->second);
  }
  [[nodiscard]] std::optional<model::Cordon> cordon_of(const model::GpuUuid& gpu) const {
    const auto found = believed_cordons_.find(gpu);
    return found == believed_cordons_.end() ? std::nullopt : std::optional(found->second);
  }
  [[nodiscard]] bool is_possible(model::TenantId id, const MaybeTenant& found) const {
    const auto possible = possible_.find(id);
    if (possible == possible_.end()) return tenant_of(believed_, id) == found;
    return std::ranges::find(possible->second, found) != possible->second.end();
  }
  void may_become(model::TenantId id, const MaybeTenant& record) {
    auto& possible = possible_[id];
    if (possible.empty()) possible.push_back(tenant_of(believed_, id));
    possible.push_back(record);
  }
  bool answered(const Status& status, model::TenantId id, const TenantRecord& record,
                Journal::Sync sync) {
    if (!status) return false;
    believed_.insert_or_assign(id, record);
    if (sync == Journal::Sync::kNow) settle();
    return true;
  }
  void settle() {
    possible_.clear();
    possible_cordons_.clear();
  }

  Ledger* ledger_ = nullptr;
  std::map<model::TenantId, TenantRecord> believed_;
  std::map<model::GpuUuid, model::Cordon> believed_cordons_;
  // Since the last acknowledgement; the first is what was before.
  std::map<model::TenantId, std::vector<MaybeTenant>> possible_;
  std::map<model::GpuUuid, std::vector<std::optional<model::Cordon>>> possible_cordons_;
};

}  // namespace divvy::ledger
