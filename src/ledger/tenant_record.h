// What is remembered of a tenant across a restart of the daemon: what it was promised and who it
// is. A plain value; ledger/ledger.h keeps it.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "ledger/slices.h"
#include "model/job_spec.h"
#include "model/member_key.h"
#include "model/tenant.h"
#include "sys/process.h"

namespace divvy::ledger {

struct TenantRecord {
  model::TenantId id;
  // The member of the job that holds the slices; job 0: granted before everybody was a job.
  model::MemberKey member;
  model::Holder holder = model::Holder::kSlice;
  std::string name;
  std::string command;  // For people
  uid_t uid = 0;
  gid_t gid = 0;
  sys::ProcessName root;        // of Holder::kProcess: who asked, and what it became by exec
  std::int64_t since_unix = 0;  // Seconds
  // In the order of the control page.
  std::vector<model::Slice> slices;
  model::JobClass tenant_class = model::JobClass::kBatch;
  GpuMode mode = GpuMode::kTimeslice;

  friend bool operator==(const TenantRecord&, const TenantRecord&) = default;
};

// Somebody's process stands behind it, so it ends with that one and does not outlive a boot.
[[nodiscard]] inline bool has_root(const TenantRecord& record) {
  return record.holder == model::Holder::kProcess;
}

}  // namespace divvy::ledger
