#include "agent/documents.h"

#include <algorithm>
#include <boost/json.hpp>
#include <chrono>

#include "base/text.h"
#include "inject/container_devices.h"
#include "sys/process.h"

namespace divvy::agent {
namespace {

namespace json = boost::json;

// Names of programs and commands may be any bytes; JSON is UTF-8.
std::string safe(std::string_view text) { return escape_for_terminal(text); }

json::object gpu_name(const ledger::SharedGpu& gpu) {
  return {{"index", gpu.index.value()}, {"uuid", gpu.uuid.str()}, {"model", safe(gpu.name)}};
}

json::object slice_terms(const model::Slice& slice, const ledger::SharedGpu& gpu) {
  return {{"gpu", gpu_name(gpu)},
          {"shareThousandths", slice.share().thousandths()},
          {"capped", slice.kind() == model::ShareKind::kCap},
          {"memoryLimitBytes", slice.memory().count()}};
}

std::string_view state_of(const TenantView& view) {
  if (std::ranges::any_of(view.gpus, &ledger::SharedGpu::failing)) return "failing";
  if (view.report.processes.empty()) return has_root(view.record) ? "starting" : "held";
  bool waits = false;
  bool works = false;
  for (std::size_t i = 0; i < view.leases.size(); ++i) {
    const share::LeaseReport& lease = view.leases[i];
    waits = waits || (lease.wants && !lease.open);
    works = works || lease.wants || (view.used[i] && view.used[i]->thousandths > 0);
  }
  return works ? "running" : waits ? "waiting" : "idle";
}

void add_used_share(json::object& slice, const std::optional<UsedShare>& used) {
  slice["usedShareThousandths"] = used ? json::value(used->thousandths) : json::value(nullptr);
  slice["usedShareMeasuredBy"] =
      !used ? json::value(nullptr)
            : json::value(used->by == UsedShare::By::kGates ? "gates" : "driver");
}

json::value root_pid(const ledger::TenantRecord& record) {
  return has_root(record) ? json::value(record.root.pid) : json::value(nullptr);
}

json::object record_document(const ledger::TenantRecord& record) {
  const bool has_job = record.member.job != model::JobId();
  return {{"id", record.id.value()},
          {"name", record.name},
          {"holder", to_string(record.holder)},
          {"job", has_job ? json::value(record.member.job.value()) : json::value(nullptr)},
          {"attempt", record.member.attempt},
          {"rank", record.member.rank},
          {"user", sys::user_name(record.uid)},
          {"uid", record.uid},
          {"pid", root_pid(record)},
          {"command", safe(record.command)},
          {"sinceUnixSeconds", record.since_unix},
          {"class", to_string(record.tenant_class)},
          {"mode", to_string(record.mode)}};
}

std::int64_t milliseconds(WallTime time) {
  return std::chrono::duration_cast<std::chrono::milliseconds>(time.time_since_epoch()).count();
}

json::value text_or_null(std::string_view text) {
  return text.empty() ? json::value(nullptr) : json::value(escape_for_terminal(text));
}

template <typename T>
json::value or_null(const std::optional<T>& value) {
  return value ? json::value(*value) : json::value(nullptr);
}

json::value sample_document(const health::GpuSample* sample) {
  if (sample == nullptr) return nullptr;
  return json::object{{"takenUnixMilliseconds", milliseconds(sample->taken)},
                      {"temperatureCelsius", or_null(sample->temperature_c)},
                      {"slowdownTemperatureCelsius", or_null(sample->slowdown_temperature_c)},
                      {"powerMilliwatts", or_null(sample->power_mw)},
                      {"utilizationPercent", or_null(sample->gpu_percent)},
                      {"uncorrectedErrors", or_null(sample->uncorrected_errors)},
                      {"remapPending", or_null(sample->remap_pending)},
                      {"remapFailed", or_null(sample->remap_failed)}};
}

}  // namespace

json::object tenant_document(const TenantView& view) {
  json::object document = record_document(view.record);
  document["state"] = state_of(view);
  json::array slices;
  for (std::size_t i = 0; i < view.record.slices.size(); ++i) {
    json::object slice = slice_terms(view.record.slices[i], view.gpus[i]);
    const share::SliceMemory& memory = view.report.slices[i];
    const share::LeaseReport& lease = view.leases[i];
    slice["memoryUsedBytes"] = memory.used.count();
    slice["memoryPeakBytes"] = memory.peak.count();
    slice["memoryUncountedBytes"] = memory.uncounted.count();
    slice["allocationsRefused"] = memory.refused;
    add_used_share(slice, view.used[i]);
    slice["waitedShareThousandths"] = lease.waited_share;
    slice["usedNanoseconds"] = lease.used_ns;
    slice["waitedNanoseconds"] = lease.waited_ns;
    slice["cappedNanoseconds"] = lease.capped_ns;
    slice["leases"] = lease.leases;
    slice["gateOpen"] = lease.open;
    slice["gated"] = lease.gated;
    slice["wants"] = lease.wants;
    slice["gatesUnavailable"] = lease.gates_unavailable;
    const std::string& resting = view.gpus[i].resting;
    slice["gpuResting"] = resting.empty() ? json::value(nullptr) : json::value(safe(resting));
    slices.push_back(std::move(slice));
  }
  document["slices"] = std::move(slices);
  json::array processes;
  for (const share::ProcessReport& process : view.report.processes) {
    processes.push_back(json::object{{"pid", process.pid},
                                     {"program", safe(process.program)},
                                     {"libraryVersion", safe(process.release)},
                                     {"connected", process.connected}});
  }
  document["processes"] = std::move(processes);
  return document;
}

json::object grant_document(const Grant& grant) {
  json::object document = record_document(grant.record);
  json::array slices;
  for (std::size_t i = 0; i < grant.record.slices.size(); ++i) {
    slices.push_back(slice_terms(grant.record.slices[i], grant.gpus[i]));
  }
  document["slices"] = std::move(slices);
  return document;
}

json::object slice_document(const TenantView& view) {
  json::object document = tenant_document(view);
  document["device"] = inject::ContainerDevices::device_name(view.record.name);
  return document;
}

json::array gpu_documents(const ledger::Slices& slices) {
  json::array result;
  for (const ledger::SharedGpu& gpu : slices.gpus()) {
    json::object document = gpu_name(gpu);
    document["memoryBytes"] = gpu.memory.count();
    document["freeShareThousandths"] = slices.free_share(gpu.uuid).thousandths();
    document["freeMemoryBytes"] = slices.free_memory(gpu.uuid).count();
    const auto mode = slices.mode_of(gpu.uuid);
    document["mode"] = mode ? json::value(to_string(*mode)) : json::value(nullptr);
    const std::string& why = gpu.unusable.empty() ? gpu.resting : gpu.unusable;
    document["unusable"] = why.empty() ? json::value(nullptr) : json::value(safe(why));
    result.push_back(std::move(document));
  }
  return result;
}

json::object health_document(const ledger::SharedGpu& gpu, const health::GpuHealth& health,
                             const std::vector<health::HolderName>& holders,
                             const health::GpuSample* sample) {
  json::array tenants;
  for (const health::HolderName& holder : holders) {
    tenants.push_back(json::object{{"id", holder.id.value()}, {"name", holder.name}});
  }
  return {{"index", gpu.index.value()},
          {"uuid", gpu.uuid.str()},
          {"model", escape_for_terminal(gpu.name)},
          {"state", model::to_string(health.state)},
          {"reason", text_or_null(health.reason)},
          {"sinceUnixMilliseconds", milliseconds(health.since)},
          {"cordoned", health.cordoned},
          {"draining", health.draining},
          {"cordonReason", text_or_null(health.cordon_reason)},
          {"acceptsWork", gpu.unusable.empty() && gpu.resting.empty()},
          {"tenants", std::move(tenants)},
          {"sample", sample_document(sample)}};
}

json::object no_fit_document(const ledger::NoFit& answer, const std::vector<TenantView>& tenants) {
  const int status = answer.ever ? 409 : 422;
  json::object document{{"type", "about:blank"},
                        {"title", answer.ever ? "does not fit now" : "can never fit"},
                        {"status", status},
                        {"detail", answer.summary}};
  document["advice"] = answer.advice;
  document["ever"] = answer.ever;
  json::array gpus;
  for (const ledger::Obstacle& obstacle : answer.obstacles) {
    json::array holders;
    for (const TenantView& view : tenants) {
      if (std::ranges::find(obstacle.holders, view.record.id) == obstacle.holders.end()) continue;
      for (std::size_t i = 0; i < view.record.slices.size(); ++i) {
        if (view.gpus[i].index != obstacle.gpu) continue;
        json::object holder = slice_terms(view.record.slices[i], view.gpus[i]);
        holder["tenant"] = view.record.name;
        holder["user"] = sys::user_name(view.record.uid);
        holder["pid"] = root_pid(view.record);
        holder["command"] = safe(view.record.command);
        holders.push_back(std::move(holder));
      }
    }
    gpus.push_back(json::object{{"index", obstacle.gpu.value()},
                                {"reason", obstacle.reason},
                                {"freeShareThousandths", obstacle.free_share.thousandths()},
                                {"freeMemoryBytes", obstacle.free_memory.count()},
                                {"holders", std::move(holders)}});
  }
  document["gpus"] = std::move(gpus);
  return document;
}

}  // namespace divvy::agent
