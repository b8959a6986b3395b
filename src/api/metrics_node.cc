// The machine as Divvy keeps its books on it: what is free on which GPU, how the GPUs are doing,
// and how the daemon itself works.
#include <array>
#include <map>

#include "api/metrics_snapshot.h"

namespace divvy::api {
namespace {

using health::HealthState;
using Type = Exposition::Type;

constexpr std::array kStates = {HealthState::kHealthy, HealthState::kSuspect,
                                HealthState::kQuarantined, HealthState::kProbation};

double seconds(std::uint64_t ns) { return static_cast<double>(ns) / 1e9; }
double ratio(Share share) { return share.thousandths() / 1000.0; }
std::uint64_t yes(bool value) { return value ? 1 : 0; }

void write_identity(const MetricsSnapshot& snapshot, Exposition& out) {
  out.begin("divvy_build_info", Type::kGauge, "Which divvyd this is; always 1.");
  out.add(Labels().add("version", snapshot.version), std::uint64_t{1});
  const model::Node& node = snapshot.node;
  Labels labels;
  labels.add("hostname", node.hostname());
  labels.add("driver_version", node.driver_version().value_or(""));
  labels.add("cuda_version", node.cuda_version() ? to_string(*node.cuda_version()) : "");
  labels.add("simulated", node.simulated() ? "true" : "false");
  out.begin("divvy_node_info", Type::kGauge, "Which machine and driver this is; always 1.");
  out.add(labels, std::uint64_t{1});
}

void write_books(const MetricsSnapshot& snapshot, Exposition& out) {
  const ledger::Slices& books = snapshot.books;
  std::vector<Labels> labels;
  for (const ledger::SharedGpu& gpu : books.gpus())
    labels.push_back(gpu_labels(gpu.index, gpu.uuid));
  const auto each = [&](const char* name, const char* help, auto&& read) {
    out.begin(name, Type::kGauge, help);
    for (std::size_t i = 0; i < labels.size(); ++i) out.add(labels[i], read(books.gpus()[i]));
  };
  each("divvy_gpu_memory_bytes", "Memory that programs can use.",
       [](const ledger::SharedGpu& gpu) { return gpu.memory.count(); });
  each("divvy_gpu_free_memory_bytes", "Memory that is in no slice.",
       [&](const ledger::SharedGpu& gpu) { return books.free_memory(gpu.uuid).count(); });
  each("divvy_gpu_free_share_ratio", "Part of the GPU's time that is in no slice.",
       [&](const ledger::SharedGpu& gpu) { return ratio(books.free_share(gpu.uuid)); });
  each("divvy_gpu_tenants", "Tenants that hold a slice of the GPU.",
       [&](const ledger::SharedGpu& gpu) {
         return static_cast<std::uint64_t>(books.holders(gpu.uuid).size());
       });
  each("divvy_gpu_usable", "Whether the GPU gets new work.",
       [](const ledger::SharedGpu& gpu) { return yes(gpu.unusable.empty()); });
}

void write_ages(const MetricsSnapshot& snapshot, Exposition& out) {
  out.begin("divvy_gpu_sample_age_seconds", Type::kGauge,
            "How long ago the driver last answered about the GPU.");
  for (const health::GpuSample& sample : snapshot.samples) {
    out.add(gpu_labels(sample.index, sample.uuid),
            std::chrono::duration<double>(age_of(sample, snapshot.now)).count());
  }
}

void write_health(const MetricsSnapshot& snapshot, Exposition& out) {
  const auto index_of = [&](const model::GpuUuid& uuid) {
    const auto place = snapshot.node.find(uuid);
    return place ? snapshot.node.gpus()[*place].index : model::GpuIndex(0);
  };
  std::map<HealthState, std::uint64_t> counts;
  out.begin("divvy_gpu_health_state", Type::kGauge,
            "1 for the state that the GPU is in, 0 for the others.");
  for (const health::GpuHealth& gpu : snapshot.health) {
    ++counts[gpu.state];
    for (const HealthState state : kStates) {
      Labels labels = gpu_labels(index_of(gpu.uuid), gpu.uuid);
      out.add(labels.add("state", to_string(state)), yes(gpu.state == state));
    }
  }
  out.begin("divvy_gpus", Type::kGauge, "GPUs by state of health.");
  for (const HealthState state : kStates) {
    out.add(Labels().add("state", to_string(state)), counts[state]);
  }
  out.begin("divvy_gpu_cordoned", Type::kGauge, "Whether an operator keeps new work off the GPU.");
  for (const health::GpuHealth& gpu : snapshot.health) {
    out.add(gpu_labels(index_of(gpu.uuid), gpu.uuid), yes(gpu.cordoned));
  }
  out.begin("divvy_gpu_draining", Type::kGauge, "Whether an operator wants the GPU to be empty.");
  for (const health::GpuHealth& gpu : snapshot.health) {
    out.add(gpu_labels(index_of(gpu.uuid), gpu.uuid), yes(gpu.draining));
  }
}

void write_arbiter(const MetricsSnapshot& snapshot, Exposition& out) {
  std::vector<std::pair<Labels, const share::TurnReport*>> reports;
  for (const share::TurnReport& report : snapshot.turns) {
    for (const ledger::SharedGpu& gpu : snapshot.books.gpus()) {
      if (static_cast<int>(gpu.index.value()) != report.gpu) continue;
      reports.emplace_back(gpu_labels(gpu.index, gpu.uuid), &report);
    }
  }
  out.begin("divvy_arbiter_gpu_seconds_total", Type::kCounter,
            "GPU time that was measured at the gates, of all tenants together.");
  for (const auto& [labels, report] : reports) out.add(labels, seconds(report->used_ns));
  out.begin("divvy_arbiter_turn_seconds", Type::kHistogram,
            "How long tenants had their turns on the GPU.");
  for (const auto& [labels, report] : reports) out.add(labels, report->turns);
}

void write_daemon(const MetricsSnapshot& snapshot, Exposition& out) {
  out.begin("divvy_tenants", Type::kGauge, "Tenants that hold slices.");
  out.add({}, static_cast<std::uint64_t>(snapshot.tenants.size()));
  out.begin("divvy_requests_waiting", Type::kGauge, "Requests for slices that wait for room.");
  out.add({}, static_cast<std::uint64_t>(snapshot.waiting));
  out.begin("divvy_ledger_writable", Type::kGauge, "Whether what is granted can be written down.");
  out.add({}, yes(snapshot.ledger_writable));
  out.begin("divvy_ledger_write_seconds", Type::kHistogram,
            "How long it took until a change was safe on the disk.");
  if (snapshot.ledger_writes) out.add({}, *snapshot.ledger_writes);
}

}  // namespace

void write_node_metrics(const MetricsSnapshot& snapshot, Exposition& out) {
  write_identity(snapshot, out);
  write_ages(snapshot, out);
  write_health(snapshot, out);
  write_books(snapshot, out);
  write_arbiter(snapshot, out);
  write_daemon(snapshot, out);
}

}  // namespace divvy::api
