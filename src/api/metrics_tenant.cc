// What every tenant was promised, what it has and what it waits for, on each of its GPUs. A GPU has
// several tenants, so these have labels of their own instead of dcgm-exporter's labels for "the"
// pod of a GPU. Commands are left out: they may hold secrets, and whoever reaches the port reads
// this.
#include <map>

#include "api/metrics_snapshot.h"
#include "sys/process.h"

namespace divvy::api {
namespace {

using agent::TenantView;
using Type = Exposition::Type;

double seconds(std::uint64_t ns) { return static_cast<double>(ns) / 1e9; }
double ratio(std::uint32_t thousandths) { return thousandths / 1000.0; }

// A slice of a tenant, with its labels.
struct Row {
  Labels labels;
  const TenantView* view;
  std::size_t slice;

  [[nodiscard]] const share::LeaseReport& lease() const { return view->leases[slice]; }
  [[nodiscard]] const share::SliceMemory& memory() const { return view->report.slices[slice]; }
  [[nodiscard]] const model::Slice& terms() const { return view->record.slices[slice]; }
};

// The names of users, each asked for once: there may be hundreds of tenants of one user.
class Users {
 public:
  const std::string& name(uid_t uid) {
    const auto known = names_.find(uid);
    if (known != names_.end()) return known->second;
    return names_.emplace(uid, sys::user_name(uid)).first->second;
  }

 private:
  std::map<uid_t, std::string> names_;
};

Labels tenant_labels(const TenantView& view, const MetricsSnapshot& snapshot, Users& users) {
  Labels labels;
  labels.add("tenant", view.record.name)
      .add("tenant_id", fmt::to_string(view.record.id.value()))
      .add("user", users.name(view.record.uid));
  if (const auto pod = snapshot.pods.find(view.record.member); pod != snapshot.pods.end()) {
    labels.add("namespace", pod->second.space)
        .add("pod", pod->second.pod)
        .add("container", pod->second.container);
  }
  return labels;
}

void write_tenants(const std::vector<TenantView>& tenants, const std::vector<Labels>& labels,
                   Exposition& out) {
  out.begin("divvy_tenant_info", Type::kGauge, "How the tenant shares its GPUs; always 1.");
  for (std::size_t i = 0; i < tenants.size(); ++i) {
    Labels all = labels[i];
    all.add("class", to_string(tenants[i].record.tenant_class))
        .add("mode", to_string(tenants[i].record.mode));
    out.add(all, std::uint64_t{1});
  }
  out.begin("divvy_tenant_processes", Type::kGauge, "Processes of the tenant that use a GPU.");
  for (std::size_t i = 0; i < tenants.size(); ++i) {
    out.add(labels[i], static_cast<std::uint64_t>(tenants[i].report.processes.size()));
  }
}

void write_shares(const std::vector<Row>& rows, Exposition& out) {
  out.begin("divvy_tenant_share_guaranteed_ratio", Type::kGauge,
            "Part of the GPU's time that the tenant was promised.");
  for (const Row& row : rows) out.add(row.labels, ratio(row.terms().share().thousandths()));
  out.begin("divvy_tenant_share_cap_ratio", Type::kGauge,
            "Part of the GPU's time that the tenant may have at most; only where it has a cap.");
  for (const Row& row : rows) {
    if (row.terms().kind() != model::ShareKind::kCap) continue;
    out.add(row.labels, ratio(row.terms().share().thousandths()));
  }
  out.begin("divvy_tenant_share_used_ratio", Type::kGauge,
            "Part of the GPU's time that the tenant had in the last second.");
  for (const Row& row : rows) {
    const auto& used = row.view->used[row.slice];
    if (used) out.add(row.labels, ratio(used->thousandths));
  }
  out.begin("divvy_tenant_gpu_seconds_total", Type::kCounter,
            "GPU time that was measured at the tenant's gates.");
  for (const Row& row : rows) out.add(row.labels, seconds(row.lease().used_ns));
}

void write_waits(const std::vector<Row>& rows, Exposition& out) {
  out.begin("divvy_tenant_leases_total", Type::kCounter,
            "Times that the tenant's gate was opened for its work.");
  for (const Row& row : rows) out.add(row.labels, row.lease().leases);
  out.begin("divvy_tenant_waited_seconds_total", Type::kCounter,
            "Time in which the tenant had work and stood at a closed gate.");
  for (const Row& row : rows) out.add(row.labels, seconds(row.lease().waited_ns));
  out.begin("divvy_tenant_throttled_seconds_total", Type::kCounter,
            "Part of the waited time that was due to the tenant's cap.");
  for (const Row& row : rows) out.add(row.labels, seconds(row.lease().capped_ns));
  out.begin("divvy_tenant_lease_wait_seconds", Type::kHistogram,
            "How long the tenant stood at its closed gate, each time until it was opened.");
  for (const Row& row : rows) out.add(row.labels, row.lease().waits);
}

void write_memory(const std::vector<Row>& rows, Exposition& out) {
  out.begin("divvy_tenant_memory_limit_bytes", Type::kGauge, "Memory of the tenant's slice.");
  for (const Row& row : rows) out.add(row.labels, row.terms().memory().count());
  out.begin("divvy_tenant_memory_used_bytes", Type::kGauge,
            "Memory that the tenant uses, what was found uncounted included.");
  for (const Row& row : rows) out.add(row.labels, row.memory().used.count());
  out.begin("divvy_tenant_memory_uncounted_bytes", Type::kGauge,
            "Memory that the driver holds for the tenant beyond what its processes counted.");
  for (const Row& row : rows) out.add(row.labels, row.memory().uncounted.count());
  out.begin("divvy_tenant_memory_peak_bytes", Type::kGauge, "The most memory that it has used.");
  for (const Row& row : rows) out.add(row.labels, row.memory().peak.count());
  out.begin("divvy_tenant_memory_refusals_total", Type::kCounter,
            "Allocations that were answered \"out of memory\" because the slice was full.");
  for (const Row& row : rows) out.add(row.labels, row.memory().refused);
}

}  // namespace

void write_tenant_metrics(const MetricsSnapshot& snapshot, Exposition& out) {
  Users users;
  std::vector<Labels> labels;
  std::vector<Row> rows;
  for (const TenantView& view : snapshot.tenants) {
    labels.push_back(tenant_labels(view, snapshot, users));
    for (std::size_t i = 0; i < view.record.slices.size(); ++i) {
      Row row{labels.back(), &view, i};
      row.labels.add("gpu", fmt::to_string(view.gpus[i].index.value()))
          .add("UUID", view.gpus[i].uuid.str());
      rows.push_back(std::move(row));
    }
  }
  write_tenants(snapshot.tenants, labels, out);
  write_shares(rows, out);
  write_waits(rows, out);
  write_memory(rows, out);
}

}  // namespace divvy::api
