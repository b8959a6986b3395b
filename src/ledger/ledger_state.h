// What the records of a ledger come to. A value without I/O or lock; its owner guards it.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/units.h"
#include "ledger/journal.h"
#include "ledger/ledger_record.h"

namespace divvy::ledger {

struct LedgerState {
  bool begun = false;  // Nothing but a beginning can come before
  std::string boot;
  model::TenantId next_id{1};
  std::map<model::TenantId, TenantRecord> tenants;
  std::map<model::GpuUuid, model::Cordon> cordons;
  std::map<model::GpuUuid, Share> shares;  // What the tenants hold of each GPU

  // Refused: a change that cannot follow what was before, such as a tenant that is there already or
  // more than all of a GPU.
  [[nodiscard]] Status check(const LedgerChange& change) const;
  // The same, and does it.
  [[nodiscard]] Status apply(const LedgerChange& change);
  // The records of a snapshot of it.
  [[nodiscard]] std::vector<std::string> snapshot() const;
};

// The state after the good records of a journal, up to the first that makes no sense.
struct Replay {
  LedgerState state;
  std::optional<JournalScan::Damage> damage;  // That of the scan too
};
[[nodiscard]] Replay replay(const JournalScan& scan);

}  // namespace divvy::ledger
