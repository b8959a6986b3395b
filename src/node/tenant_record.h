// What is remembered of a tenant across a restart of the daemon: what it was promised and who it
// is. Plain values, and the file that they are kept in.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "base/result.h"
#include "model/tenant.h"
#include "node/gpu_schedule.h"
#include "node/process.h"
#include "node/slices.h"

namespace divvy::node {

[[nodiscard]] std::string_view to_string(TenantClass tenant_class);
// "batch" or "latency"
[[nodiscard]] Result<TenantClass> parse_tenant_class(std::string_view text);

struct TenantRecord {
  model::TenantId id;
  std::string name;
  std::string command;  // For people
  uid_t uid = 0;
  gid_t gid = 0;
  // Who asked, and what it became by exec. Its pid is 0 for a slice that is held by its name.
  ProcessName root;
  std::int64_t since_unix = 0;  // Seconds
  // In the order of the control page.
  std::vector<model::Slice> slices;
  TenantClass tenant_class = TenantClass::kBatch;
  GpuMode mode = GpuMode::kTimeslice;
};

// Somebody's process stands behind it, so it ends with that one and does not outlive a boot.
[[nodiscard]] inline bool has_root(const TenantRecord& record) { return record.root.pid != 0; }

// The whole book of tenants in one file, replaced as a whole: after a crash the file is the old one
// or the new one. First form; a journal takes its place later.
class StateFile {
 public:
  explicit StateFile(std::filesystem::path path) : path_(std::move(path)) {}

  struct Contents {
    model::TenantId next_id{1};
    std::vector<TenantRecord> tenants;
  };

  // On the disk when it returns.
  [[nodiscard]] Status save(const Contents& contents) const;
  // Empty when there is none, or when it is from before the last boot. A damaged file is an error.
  [[nodiscard]] Result<Contents> load() const;

 private:
  std::filesystem::path path_;
};

}  // namespace divvy::node
