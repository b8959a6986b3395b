#include "api/documents.h"

#include <algorithm>
#include <boost/json.hpp>

#include "base/text.h"
#include "node/process.h"

namespace divvy::api {
namespace {

namespace json = boost::json;

// Names of programs and commands may be any bytes; JSON is UTF-8.
std::string safe(std::string_view text) { return escape_for_terminal(text); }

json::object gpu_name(const node::SharedGpu& gpu) {
  return {{"index", gpu.index.value()}, {"uuid", gpu.uuid.str()}, {"model", safe(gpu.name)}};
}

json::object slice_terms(const model::Slice& slice, const node::SharedGpu& gpu) {
  return {{"gpu", gpu_name(gpu)},
          {"shareThousandths", slice.share().thousandths()},
          {"capped", slice.kind() == model::ShareKind::kCap},
          {"memoryLimitBytes", slice.memory().count()}};
}

std::string_view state_of(const node::TenantView& view) {
  if (std::ranges::any_of(view.gpus, &node::SharedGpu::failing)) return "failing";
  if (view.report.processes.empty()) return has_root(view.record) ? "starting" : "held";
  bool waits = false;
  bool works = false;
  for (std::size_t i = 0; i < view.leases.size(); ++i) {
    const node::LeaseReport& lease = view.leases[i];
    waits = waits || (lease.wants && !lease.open);
    works = works || lease.wants || (view.used[i] && view.used[i]->thousandths > 0);
  }
  return works ? "running" : waits ? "waiting" : "idle";
}

void add_used_share(json::object& slice, const std::optional<node::UsedShare>& used) {
  slice["usedShareThousandths"] = used ? json::value(used->thousandths) : json::value(nullptr);
  slice["usedShareMeasuredBy"] =
      !used ? json::value(nullptr)
            : json::value(used->by == node::UsedShare::By::kGates ? "gates" : "driver");
}

json::value root_pid(const node::TenantRecord& record) {
  return has_root(record) ? json::value(record.root.pid) : json::value(nullptr);
}

json::object record_document(const node::TenantRecord& record) {
  return {{"id", record.id.value()},
          {"name", record.name},
          {"user", node::user_name(record.uid)},
          {"uid", record.uid},
          {"pid", root_pid(record)},
          {"command", safe(record.command)},
          {"sinceUnixSeconds", record.since_unix},
          {"class", node::to_string(record.tenant_class)},
          {"mode", to_string(record.mode)}};
}

}  // namespace

json::object tenant_document(const node::TenantView& view) {
  json::object document = record_document(view.record);
  document["state"] = state_of(view);
  json::array slices;
  for (std::size_t i = 0; i < view.record.slices.size(); ++i) {
    json::object slice = slice_terms(view.record.slices[i], view.gpus[i]);
    const node::SliceMemory& memory = view.report.slices[i];
    const node::LeaseReport& lease = view.leases[i];
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
  for (const node::ProcessReport& process : view.report.processes) {
    processes.push_back(json::object{{"pid", process.pid},
                                     {"program", safe(process.program)},
                                     {"libraryVersion", safe(process.release)},
                                     {"connected", process.connected}});
  }
  document["processes"] = std::move(processes);
  return document;
}

json::object grant_document(const node::Grant& grant) {
  json::object document = record_document(grant.record);
  document["apiVersion"] = "divvy/v1";
  document["kind"] = "Grant";
  json::array slices;
  for (std::size_t i = 0; i < grant.record.slices.size(); ++i) {
    slices.push_back(slice_terms(grant.record.slices[i], grant.gpus[i]));
  }
  document["slices"] = std::move(slices);
  json::object environment;
  for (const auto& [name, value] : grant.environment) environment[name] = value;
  document["environment"] = std::move(environment);
  return document;
}

json::array gpu_documents(const node::Slices& slices) {
  json::array result;
  for (const node::SharedGpu& gpu : slices.gpus()) {
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

json::object problem_document(int status, std::string_view title, std::string_view detail) {
  return {{"type", "about:blank"}, {"title", title}, {"status", status}, {"detail", detail}};
}

json::object no_fit_document(const node::NoFit& answer,
                             const std::vector<node::TenantView>& tenants) {
  const int status = answer.ever ? 409 : 422;
  json::object document =
      problem_document(status, answer.ever ? "does not fit now" : "can never fit", answer.summary);
  document["advice"] = answer.advice;
  document["ever"] = answer.ever;
  json::array gpus;
  for (const node::Obstacle& obstacle : answer.obstacles) {
    json::array holders;
    for (const node::TenantView& view : tenants) {
      if (std::ranges::find(obstacle.holders, view.record.id) == obstacle.holders.end()) continue;
      for (std::size_t i = 0; i < view.record.slices.size(); ++i) {
        if (view.gpus[i].index != obstacle.gpu) continue;
        json::object holder = slice_terms(view.record.slices[i], view.gpus[i]);
        holder["tenant"] = view.record.name;
        holder["user"] = node::user_name(view.record.uid);
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

int http_status(ErrorCode code) {
  switch (code) {
    case ErrorCode::kInvalidArgument:
    case ErrorCode::kOutOfRange:
      return 400;
    case ErrorCode::kNotFound:
      return 404;
    case ErrorCode::kAlreadyExists:
    case ErrorCode::kFailedPrecondition:
    case ErrorCode::kResourceExhausted:
      return 409;
    case ErrorCode::kPermissionDenied:
      return 403;
    case ErrorCode::kUnsupported:
      return 501;
    case ErrorCode::kUnavailable:
      return 503;
    case ErrorCode::kTimeout:
      return 504;
    case ErrorCode::kCancelled:
    case ErrorCode::kDataLoss:
    case ErrorCode::kIo:
    case ErrorCode::kInternal:
      break;
  }
  return 500;
}

}  // namespace divvy::api
