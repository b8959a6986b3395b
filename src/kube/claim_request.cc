#include "kube/claim_request.h"

#include <algorithm>
#include <array>
#include <boost/json.hpp>

#include "base/memory_amount.h"
#include "base/text.h"
#include "kube/json_view.h"
#include "kube/object_names.h"

namespace divvy::kube {
namespace {

namespace json = boost::json;

constexpr std::string_view kKind = "SliceRequest";
constexpr std::array<std::string_view, 8> kFields{"apiVersion", "kind",  "gpu",    "gpuMemory",
                                                  "cap",        "class", "models", "topology"};

tl::unexpected<Error> wrong(std::string_view field, std::string_view what) {
  return err(ErrorCode::kInvalidArgument, "{}: {}", field, what);
}

// The first line: parsers of base draw a caret below it.
std::string first_line(const std::string& message) { return message.substr(0, message.find('\n')); }

struct Wanted {
  model::Request::Parts parts;
  // What it says itself, so that no policy says it.
  std::optional<model::JobClass> job_class = std::nullopt;
  bool says_cap = false;
  bool says_topology = false;

  [[nodiscard]] bool is_like(const Wanted& other) const {
    return parts == other.parts && job_class == other.job_class;
  }
};

// The parameters of one request.
class Parameters {
 public:
  Parameters(const json::object& document, std::string field)
      : document_(document), field_(std::move(field)) {}

  Result<Wanted> read() const {
    Wanted wanted;
    DIVVY_RETURN_IF_ERROR(check_fields());
    const json::value* gpu = document_.if_contains("gpu");
    const json::value* memory = document_.if_contains("gpuMemory");
    if (gpu == nullptr && memory == nullptr) {
      return wrong(of("gpu"), "it is missing: how much of a GPU, like \"0.3\"?");
    }
    if (gpu != nullptr) {
      DIVVY_TRY(text, text_of("gpu"));
      const auto share = parse_share(text);
      if (!share) return wrong(of("gpu"), first_line(share.error().message));
      if (*share == Share(0)) return wrong(of("gpu"), "a claim for no GPU cannot be had");
      wanted.parts.share = *share;
    }
    if (memory != nullptr) {
      DIVVY_TRY(text, text_of("gpuMemory"));
      const auto bytes = parse_memory(text);
      if (!bytes) return wrong(of("gpuMemory"), first_line(bytes.error().message));
      wanted.parts.memory = *bytes;
    }
    DIVVY_RETURN_IF_ERROR(read_treatment(wanted));
    return wanted;
  }

 private:
  [[nodiscard]] std::string of(std::string_view name) const {
    return fmt::format("{}.{}", field_, name);
  }

  Status check_fields() const {
    for (const auto& entry : document_) {
      const std::string_view name = entry.key();
      if (std::ranges::find(kFields, name) != kFields.end()) continue;
      const auto meant = did_you_mean(name, std::span<const std::string_view>(kFields));
      return wrong(of(escape_for_terminal(name.substr(0, 60))),
                   meant ? fmt::format("there is no such field; did you mean {}?", *meant)
                         : "there is no such field");
    }
    if (text_at(document_, {"kind"}) != kKind ||
        text_at(document_, {"apiVersion"}) != kApiVersion) {
      return wrong(of("kind"), fmt::format("write kind {} of {}", kKind, kApiVersion));
    }
    return {};
  }

  Result<std::string_view> text_of(std::string_view name) const {
    const json::value& value = document_.at(name);
    if (!value.is_string()) return wrong(of(name), "this has to be text; put it in quotes");
    return std::string_view(value.get_string());
  }

  Status read_treatment(Wanted& wanted) const {
    if (const json::value* cap = document_.if_contains("cap")) {
      if (!cap->is_bool()) return wrong(of("cap"), "this has to be true or false");
      wanted.parts.kind = cap->get_bool() ? model::ShareKind::kCap : model::ShareKind::kGuarantee;
      wanted.says_cap = true;
    }
    if (document_.contains("class")) {
      DIVVY_TRY(text, text_of("class"));
      DIVVY_TRY(job_class, with_context(model::parse_job_class(text), of("class")));
      wanted.job_class = job_class;
    }
    if (document_.contains("topology")) {
      DIVVY_TRY(text, text_of("topology"));
      DIVVY_TRY(topology, with_context(model::parse_topology_preference(text), of("topology")));
      wanted.parts.topology = topology;
      wanted.says_topology = true;
    }
    if (const json::value* models = document_.if_contains("models")) {
      if (!models->is_array()) return wrong(of("models"), "this has to be a list");
      for (const json::value& model : models->get_array()) {
        if (!model.is_string()) return wrong(of("models"), "a model has to be text");
        wanted.parts.allowed_models.emplace_back(model.get_string());
      }
    }
    return {};
  }

  const json::object& document_;
  std::string field_;
};

// Whether a config is for this request: it names it, or names none.
bool is_for(const json::object& config, std::string_view request) {
  const json::array& requests = array_at(config, {"requests"});
  return requests.empty() || std::ranges::any_of(requests, [&](const json::value& name) {
           return name.is_string() && std::string_view(name.get_string()) == request;
         });
}

Result<Wanted> wanted_by(const json::object& claim, std::string_view request) {
  const json::array& configs = array_at(claim, {"spec", "devices", "config"});
  std::optional<Wanted> found;
  for (std::size_t i = 0; i < configs.size(); ++i) {
    if (!configs[i].is_object()) continue;
    const json::object& config = configs[i].get_object();
    if (text_at(config, {"opaque", "driver"}) != kDriver || !is_for(config, request)) continue;
    const std::string field = fmt::format("spec.devices.config[{}].opaque.parameters", i);
    if (found) return wrong(field, "another config says how much, too; leave one of them out");
    DIVVY_TRY(wanted, Parameters(object_at(config, {"opaque", "parameters"}), field).read());
    found = std::move(wanted);
  }
  if (found) return *std::move(found);
  Wanted whole;
  whole.parts.share = Share(Share::kWhole);
  return whole;
}

// Whole GPUs are nobody's to share.
bool is_part(const model::Request::Parts& parts) { return parts.share < Share::whole_gpus(1); }

// What the policy of its namespace says, where the claim says nothing; and what it denies to all.
void apply_defaults(const PodDefaults& defaults, Wanted& wanted) {
  model::Request::Parts& parts = wanted.parts;
  if (parts.allowed_models.empty()) parts.allowed_models = defaults.models;
  parts.denied_models = defaults.models_denied;
  if (defaults.topology && !wanted.says_topology) parts.topology = *defaults.topology;
  if (!wanted.job_class) wanted.job_class = defaults.job_class.value_or(model::JobClass::kBatch);
  if (defaults.cap && !wanted.says_cap && is_part(parts)) {
    parts.kind = *defaults.cap ? model::ShareKind::kCap : model::ShareKind::kGuarantee;
  }
}

// The name of a request, if it is for our class.
Result<std::optional<std::string>> request_name(const json::object& request,
                                                const std::string& field) {
  if (text_at(request, {"exactly", "deviceClassName"}) != kDeviceClass) {
    for (const json::value& choice : array_at(request, {"firstAvailable"})) {
      if (choice.is_object() && text_at(choice.get_object(), {"deviceClassName"}) == kDeviceClass) {
        return wrong(field + ".firstAvailable",
                     "Divvy allocates what is asked for exactly; write it under exactly");
      }
    }
    return std::nullopt;
  }
  if (number_at(request, {"exactly", "count"}).value_or(1) != 1 ||
      text_at(request, {"exactly", "allocationMode"}) == "All") {
    return wrong(field + ".exactly.count",
                 "a request is one slice; write several requests, or more GPUs in its parameters");
  }
  const std::string_view name = text_at(request, {"name"});
  if (name.empty()) return wrong(field + ".name", "a request has to have a name");
  return std::string(name);
}

}  // namespace

Result<std::optional<PodRequest>> read_claim_request(const json::object& claim,
                                                     const DialectPolicy& policy) {
  const json::array& requests = array_at(claim, {"spec", "devices", "requests"});
  std::vector<std::string> names;
  std::optional<Wanted> wanted;
  for (std::size_t i = 0; i < requests.size(); ++i) {
    const std::string field = fmt::format("spec.devices.requests[{}]", i);
    if (!requests[i].is_object()) continue;
    DIVVY_TRY(name, request_name(requests[i].get_object(), field));
    if (!name) continue;
    DIVVY_TRY(one, wanted_by(claim, *name));
    apply_defaults(policy.defaults, one);
    if (wanted && !wanted->is_like(one)) {
      return wrong(field,
                   "requests of one claim are for slices of one size; ask for the same, or "
                   "make two claims");
    }
    wanted = std::move(one);
    names.push_back(*std::move(name));
  }
  if (!wanted) return std::nullopt;
  model::Request::Parts parts = wanted->parts;
  DIVVY_TRY(single, with_context(model::Request::create(parts), "spec.devices"));
  model::JobSpec spec(std::move(single));
  spec.queue = policy.queue;
  spec.job_class = wanted->job_class.value_or(model::JobClass::kBatch);
  if (is_part(parts)) spec.mode = policy.defaults.mode;
  spec.holder = model::Holder::kSlice;
  DIVVY_RETURN_IF_ERROR(with_context(model::check(spec), "spec.devices"));
  parts.gang_size = static_cast<std::uint32_t>(names.size());
  DIVVY_TRY(all, with_context(model::Request::create(parts), "spec.devices"));
  spec.request = std::move(all);
  PodRequest request(std::move(spec));
  request.dialect = "claim";
  request.containers = std::move(names);
  return request;
}

}  // namespace divvy::kube
