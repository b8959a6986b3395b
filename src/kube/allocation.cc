#include "kube/allocation.h"

#include <boost/json.hpp>
#include <limits>

#include "kube/json_view.h"
#include "kube/object_names.h"
#include "kube/time_stamp.h"

namespace divvy::kube {
namespace {

namespace json = boost::json;

constexpr std::size_t kDeepest = 16;

tl::unexpected<Error> wrong(std::string_view what) {
  return err(ErrorCode::kDataLoss, "an allocation of {} without a right {}", kDriver, what);
}

// The configuration of this device among those of the allocation; null where there is none.
const json::object* parameters_of(const json::object& allocation, std::string_view device) {
  for (const json::value& one : array_at(allocation, {"devices", "config"})) {
    const json::object* const config = one.if_object();
    if (config == nullptr || text_at(*config, {"opaque", "driver"}) != kDriver) continue;
    const json::object& parameters = object_at(*config, {"opaque", "parameters"});
    if (text_at(parameters, {"kind"}) == "Slice" && text_at(parameters, {"device"}) == device) {
      return &parameters;
    }
  }
  return nullptr;
}

}  // namespace

json::object write_slice(const SliceParameters& parameters) {
  const model::Slice& slice = parameters.slice;
  return {{"apiVersion", kApiVersion},
          {"kind", "Slice"},
          {"device", parameters.device},
          {"gpu", slice.gpu().str()},
          {"shareThousandths", slice.share().thousandths()},
          {"memoryBytes", slice.memory().count()},
          {"capped", slice.kind() == model::ShareKind::kCap},
          {"class", to_string(parameters.job_class)},
          {"mode", to_string(parameters.mode)}};
}

Result<SliceParameters> read_slice(const json::object& parameters) {
  DIVVY_TRY(gpu, model::GpuUuid::parse(text_at(parameters, {"gpu"})));
  const auto share = number_at(parameters, {"shareThousandths"});
  const auto memory = number_at(parameters, {"memoryBytes"});
  if (!share || *share > Share::kWhole) return wrong("shareThousandths");
  if (!memory) return wrong("memoryBytes");
  DIVVY_TRY(slice, model::Slice::create(
                       std::move(gpu), Bytes(*memory), Share(static_cast<std::uint32_t>(*share)),
                       true_at(parameters, {"capped"}) ? model::ShareKind::kCap
                                                       : model::ShareKind::kGuarantee));
  DIVVY_TRY(job_class, model::parse_job_class(text_at(parameters, {"class"})));
  DIVVY_TRY(mode, model::parse_gpu_mode(text_at(parameters, {"mode"})));
  return SliceParameters{std::string(text_at(parameters, {"device"})), std::move(slice), job_class,
                         mode};
}

json::object write_allocation(const Allocation& allocation) {
  json::array results;
  json::array config;
  for (const AllocatedSlice& one : allocation.slices) {
    json::object result{{"request", one.request},
                        {"driver", kDriver},
                        {"pool", allocation.node},
                        {"device", one.device}};
    if (allocation.awaits_go) {
      result["bindingConditions"] = json::array{kGoCondition};
      result["bindingFailureConditions"] = json::array{kNoCondition};
    }
    results.push_back(std::move(result));
    config.push_back(json::object{
        {"source", "FromClaim"},
        {"requests", json::array{one.request}},
        {"opaque",
         json::object{{"driver", kDriver},
                      {"parameters", write_slice({one.device, one.slice, allocation.job_class,
                                                  allocation.mode})}}}});
  }
  // The claim alone steers: a pod with a selector of its own could never be placed elsewhere.
  const json::object field{
      {"key", "metadata.name"}, {"operator", "In"}, {"values", json::array{allocation.node}}};
  const json::object term{{"matchFields", json::array{field}}};
  return {{"allocationTimestamp", time_stamp(allocation.at)},
          {"devices", json::object{{"results", std::move(results)}, {"config", std::move(config)}}},
          {"nodeSelector", json::object{{"nodeSelectorTerms", json::array{term}}}}};
}

namespace {

Result<std::optional<Allocation>> read_document(const json::object& document) {
  Allocation allocation;
  allocation.at = read_time_stamp(text_at(document, {"allocationTimestamp"})).value_or(WallTime());
  for (const json::value& one : array_at(document, {"devices", "results"})) {
    const json::object* const result = one.if_object();
    if (result == nullptr || text_at(*result, {"driver"}) != kDriver) continue;
    const std::string_view node = text_at(*result, {"pool"});
    if (node.empty() || (!allocation.node.empty() && allocation.node != node)) return wrong("pool");
    allocation.node = node;
    const std::string_view device = text_at(*result, {"device"});
    const json::object* const parameters = parameters_of(document, device);
    if (parameters == nullptr) return wrong("configuration of each device");
    DIVVY_TRY(slice, read_slice(*parameters));
    allocation.job_class = slice.job_class;
    allocation.mode = slice.mode;
    if (!array_at(*result, {"bindingConditions"}).empty()) allocation.awaits_go = true;
    allocation.slices.push_back(
        {std::string(text_at(*result, {"request"})), std::string(device), std::move(slice.slice)});
  }
  if (allocation.slices.empty()) return std::optional<Allocation>();
  return std::optional(std::move(allocation));
}

}  // namespace

Result<std::optional<Allocation>> read_allocation(const json::object& claim) {
  return read_document(object_at(claim, {"status", "allocation"}));
}

std::string write_allocation_annotation(const Allocation& allocation) {
  return json::serialize(write_allocation(allocation));
}

Result<std::optional<Allocation>> read_allocation_annotation(const json::object& pod) {
  const std::string_view text = text_at(pod, {"metadata", "annotations", kAllocationAnnotation});
  if (text.empty()) return std::optional<Allocation>();
  boost::system::error_code code;
  json::parse_options options;
  options.max_depth = kDeepest;
  const json::value document = json::parse(text, code, {}, options);
  if (code || !document.is_object()) return wrong("form");
  return read_document(document.get_object());
}

}  // namespace divvy::kube
