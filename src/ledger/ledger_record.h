// The changes that the ledger is made of, and how each is written down: one JSON object per record
// of the journal, checked strictly when it is read. Pure; callable from any thread.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/result.h"
#include "ledger/tenant_record.h"
#include "model/cordon.h"
#include "model/gpu_uuid.h"
#include "model/tenant.h"

namespace divvy::ledger {

// The first record of a snapshot: what holds for everything behind it.
struct LedgerBegins {
  std::string boot;  // The records are of this boot of the machine
  model::TenantId next_id{1};
};
struct TenantGranted {
  TenantRecord record;
};
struct TenantChanged {
  TenantRecord record;
};
struct TenantReleased {
  model::TenantId tenant;
};
struct GpuCordoned {
  model::GpuUuid gpu;
  model::Cordon cordon;
};
struct GpuUncordoned {
  model::GpuUuid gpu;
};
using LedgerChange = std::variant<LedgerBegins, TenantGranted, TenantChanged, TenantReleased,
                                  GpuCordoned, GpuUncordoned>;

[[nodiscard]] std::string encode(const LedgerChange& change);
// kDataLoss, with what is wrong.
[[nodiscard]] Result<LedgerChange> decode_ledger_change(std::string_view text);

// The file that daemons kept before there was a ledger.
struct FirstStateFile {
  std::string boot;
  model::TenantId next_id{1};
  std::vector<TenantRecord> tenants;
};
[[nodiscard]] Result<FirstStateFile> decode_first_state_file(std::string_view text);

}  // namespace divvy::ledger
