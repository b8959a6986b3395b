#include "kubelet/gpu_node.h"

#include <boost/json.hpp>

#include "agent/order_documents.h"
#include "base/log.h"
#include "kube/json_view.h"
#include "kube/object_names.h"
#include "kube/time_stamp.h"

namespace divvy::kubelet {
namespace {

namespace json = boost::json;
using namespace std::chrono_literals;

constexpr const char* kCollection = "/apis/divvy.dev/v1/gpunodes";
// Somebody else wrote in between: nobody but us should, so it ends soon.
constexpr int kMostTries = 5;

// As agents send it.
json::value state_document(const agent::MachineState& state) {
  const std::string message = agent::write_message(agent::News(agent::StateChanged{state}));
  const json::value document = json::parse(message);
  return kube::object_at(document.get_object(), {"body", "state"});
}

json::object held_document(const ClaimRecord& record) {
  json::array slices;
  for (const kube::AllocatedSlice& one : record.slices) {
    slices.push_back(kube::write_slice({one.device, one.slice, record.job_class, record.mode}));
  }
  return {{"claimUid", record.uid},
          {"namespace", record.space},
          {"claim", record.by_slots ? std::string() : record.name},
          {"pod", record.pod},
          {"slices", std::move(slices)}};
}

}  // namespace

json::object gpu_node_status(const NodeView::Snapshot& snapshot, const NodeSigns& signs) {
  json::array held;
  for (const auto& [uid, record] : snapshot.claims) held.push_back(held_document(record));
  return {{"agentVersion", signs.version},
          {"heartbeat", kube::time_stamp(signs.heartbeat)},
          {"simulated", signs.simulated},
          {"state", state_document(snapshot.state)},
          {"held", std::move(held)}};
}

GpuNodePublisher::~GpuNodePublisher() {
  view_.stop();
  if (thread_.joinable()) thread_.join();
}

void GpuNodePublisher::start() {
  thread_ = std::thread([this] { run(); });
}

void GpuNodePublisher::run() {
  bool works = true;
  while (!view_.is_stopped()) {
    const NodeView::Snapshot snapshot = view_.now();
    const Status published = publish(snapshot);
    if (!published && works) {
      log_warning("the controller does not learn of this node",
                  {{"reason", published.error().message}});
    }
    if (published && !works) log_info("the controller learns of this node again");
    works = published.has_value();
    view_.await_change(snapshot.version, options_.heartbeat);
  }
}

std::string GpuNodePublisher::path() const {
  return fmt::format("{}/{}", kCollection, view_.node());
}

// The resource version of an object without a status yet.
Result<std::string> GpuNodePublisher::make_object() {
  json::object metadata{{"name", view_.node()}};
  // It goes with the node.
  const auto node = api_.get(fmt::format("/api/v1/nodes/{}", view_.node()));
  if (node) {
    metadata["ownerReferences"] =
        json::array{json::object{{"apiVersion", "v1"},
                                 {"kind", "Node"},
                                 {"name", view_.node()},
                                 {"uid", kube::text_at(*node, {"metadata", "uid"})}}};
  }
  DIVVY_TRY(made, api_.create(kCollection, {{"apiVersion", kube::kApiVersion},
                                            {"kind", "GpuNode"},
                                            {"metadata", std::move(metadata)}}));
  log_info("this node has an object for the controller", {{"name", view_.node()}});
  return std::string(kube::text_at(made, {"metadata", "resourceVersion"}));
}

Status GpuNodePublisher::publish(const NodeView::Snapshot& snapshot) {
  Error last;
  for (int i = 0; i < kMostTries; ++i) {
    if (resource_version_.empty()) {
      const auto found = api_.get(path());
      if (!found && found.error().code != ErrorCode::kNotFound) return err(found.error());
      if (found) resource_version_ = kube::text_at(*found, {"metadata", "resourceVersion"});
      if (!found) {
        auto made = make_object();
        if (!made && made.error().code == ErrorCode::kAlreadyExists) continue;
        if (!made) return err(std::move(made).error());
        resource_version_ = *std::move(made);
      }
    }
    const json::object document{
        {"apiVersion", kube::kApiVersion},
        {"kind", "GpuNode"},
        {"metadata", json::object{{"name", view_.node()}, {"resourceVersion", resource_version_}}},
        {"status",
         gpu_node_status(snapshot, {options_.version, options_.simulated, clock_.wall_now()})}};
    const auto written = api_.replace(path() + "/status", document);
    if (written) {
      resource_version_ = kube::text_at(*written, {"metadata", "resourceVersion"});
      return {};
    }
    resource_version_.clear();
    last = written.error();
    if (last.code != ErrorCode::kFailedPrecondition && last.code != ErrorCode::kNotFound) break;
  }
  return err(std::move(last));
}

}  // namespace divvy::kubelet
