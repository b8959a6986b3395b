#include "kube/request_annotation.h"

#include <algorithm>
#include <boost/json.hpp>
#include <set>

#include "base/text.h"
#include "kube/object_names.h"
#include "kube/pod_view.h"
#include "model/job_document.h"

namespace divvy::kube {
namespace {

namespace json = boost::json;

constexpr std::size_t kDeepest = 16;
constexpr std::size_t kLongest = 256 * 1024;  // Kubernetes takes no more of all annotations
constexpr int kVersion = 1;

tl::unexpected<Error> wrong(std::string_view field, std::string_view what) {
  return err(ErrorCode::kInvalidArgument, "{}: {}", field, what);
}

json::array list_of(const std::vector<std::string>& names) {
  json::array list;
  for (const std::string& name : names) list.emplace_back(name);
  return list;
}

Result<std::vector<std::string>> names_in(const json::object& document, std::string_view field) {
  std::vector<std::string> names;
  const json::value* list = document.if_contains(field);
  if (list == nullptr) return names;
  if (!list->is_array()) return wrong(field, "this has to be a list");
  for (const json::value& item : list->get_array()) {
    if (!item.is_string() || item.get_string().empty()) {
      return wrong(field, "a container has to have a name");
    }
    names.emplace_back(item.get_string());
  }
  return names;
}

Result<std::optional<PodGang>> gang_in(const json::object& document) {
  const json::value* value = document.if_contains("gang");
  if (value == nullptr || value->is_null()) return std::nullopt;
  if (!value->is_object()) return wrong("gang", "this has to be an object with named fields");
  const json::object& fields = value->get_object();
  PodGang gang;
  const json::value* name = fields.if_contains("name");
  if (name == nullptr || !name->is_string() || name->get_string().empty()) {
    return wrong("gang.name", "a gang has to have a name");
  }
  gang.name = std::string(name->get_string());
  const auto read = [&](const char* field, std::uint32_t& into) -> Status {
    const json::value* number = fields.if_contains(field);
    if (number == nullptr) return {};
    boost::system::error_code code;
    into = number->to_number<std::uint32_t>(code);
    if (code) return wrong(fmt::format("gang.{}", field), "this has to be a whole number");
    return {};
  };
  DIVVY_RETURN_IF_ERROR(read("size", gang.size));
  DIVVY_RETURN_IF_ERROR(read("least", gang.least));
  return gang;
}

// The spec with only those parts that a pod can say something about.
model::JobSpec pod_parts(const model::JobSpec& spec) {
  model::JobSpec plain(spec.request);
  plain.queue = spec.queue;
  plain.devices = spec.devices;
  plain.where.gpus_near = spec.where.gpus_near;
  plain.where.members_near = spec.where.members_near;
  plain.job_class = spec.job_class;
  plain.priority = spec.priority;
  plain.preemptible = spec.preemptible;
  plain.mode = spec.mode;
  plain.holder = model::Holder::kSlice;
  return plain;
}

Status check_spec(const model::JobSpec& spec, std::size_t containers) {
  if (spec.members() != containers) {
    return wrong("spec.members", fmt::format("there are {} containers, and {} members", containers,
                                             spec.members()));
  }
  if (spec != pod_parts(spec)) return wrong("spec", "it says what a pod cannot ask for");
  model::Request::Parts parts{
      .share = spec.request.share(),
      .memory = spec.request.memory(),
      .kind = spec.request.kind(),
      .allowed_models = spec.request.allowed_models(),
      .denied_models = spec.request.denied_models(),
      .topology = spec.request.topology(),
  };
  DIVVY_TRY(request, model::Request::create(std::move(parts)));
  model::JobSpec one = spec;
  one.request = std::move(request);
  return with_context(model::check(one), "spec");
}

Result<PodRequest> read_document(const json::object& document) {
  const json::value* version = document.if_contains("version");
  if (version == nullptr || *version != kVersion) {
    return wrong("version", fmt::format("only version {} is known", kVersion));
  }
  const json::value* spec_document = document.if_contains("spec");
  if (spec_document == nullptr) return wrong("spec", "it is missing");
  DIVVY_TRY(spec, with_context(model::read_job_spec(json::serialize(*spec_document)), "spec"));
  PodRequest request(std::move(spec));
  const json::value* dialect = document.if_contains("dialect");
  if (dialect == nullptr || !dialect->is_string()) return wrong("dialect", "it is missing");
  request.dialect = std::string(dialect->get_string());
  if (request.dialect.size() > 63 || escape_for_terminal(request.dialect) != request.dialect) {
    return wrong("dialect", "this is no name of a dialect");
  }
  DIVVY_TRY(containers, names_in(document, "containers"));
  DIVVY_TRY(init_containers, names_in(document, "initContainers"));
  DIVVY_TRY(gang, gang_in(document));
  if (containers.empty()) return wrong("containers", "no container is named");
  std::set<std::string_view> names(containers.begin(), containers.end());
  names.insert(init_containers.begin(), init_containers.end());
  if (names.size() != containers.size() + init_containers.size()) {
    return wrong("containers", "a container is named twice");
  }
  if (const json::value* const way = document.if_contains("way")) {
    if (!way->is_string()) return wrong("way", "this has to be a word");
    DIVVY_TRY(parsed, with_context(parse_way(way->get_string()), "way"));
    request.way = parsed;
  }
  DIVVY_RETURN_IF_ERROR(check_spec(request.spec, containers.size()));
  request.containers = std::move(containers);
  request.init_containers = std::move(init_containers);
  request.gang = std::move(gang);
  return request;
}

}  // namespace

std::string write_request_annotation(const PodRequest& request) {
  json::object document{{"version", kVersion},
                        {"dialect", request.dialect},
                        {"containers", list_of(request.containers)}};
  if (!request.init_containers.empty()) {
    document["initContainers"] = list_of(request.init_containers);
  }
  if (request.gang) {
    document["gang"] = json::object{
        {"name", request.gang->name}, {"size", request.gang->size}, {"least", request.gang->least}};
  }
  if (request.way != Way::kClaims) document["way"] = to_string(request.way);
  document["spec"] = json::parse(model::write_job_spec(request.spec));
  return json::serialize(document);
}

Result<PodRequest> read_request_annotation(std::string_view text) {
  if (text.size() > kLongest) return err(ErrorCode::kInvalidArgument, "it is too long");
  boost::system::error_code code;
  json::parse_options options;
  options.max_depth = kDeepest;
  const json::value document = json::parse(text, code, {}, options);
  if (code) return err(ErrorCode::kInvalidArgument, "it is no JSON: {}", code.message());
  if (!document.is_object()) return err(ErrorCode::kInvalidArgument, "it is no JSON object");
  return read_document(document.get_object());
}

Result<std::optional<PodRequest>> annotated_request(const json::object& pod) {
  DIVVY_TRY(view, PodView::create(pod));
  const auto text = view.annotation(kRequestAnnotation);
  if (!text) return std::nullopt;
  DIVVY_TRY(request, with_context(read_request_annotation(text->text), text->field));
  for (const auto* names : {&request.containers, &request.init_containers}) {
    for (const std::string& name : *names) {
      const PodContainer* container = view.container(name);
      const bool init = names == &request.init_containers;
      if (container == nullptr || (init && container->kind != ContainerKind::kInit)) {
        return wrong(text->field,
                     fmt::format("the pod has no {}container \"{}\"", init ? "init " : "",
                                 escape_for_terminal(name.substr(0, 63))));
      }
    }
  }
  return request;
}

}  // namespace divvy::kube
