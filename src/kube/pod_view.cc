#include "kube/pod_view.h"

#include <algorithm>
#include <boost/json.hpp>

#include "base/text.h"
#include "kube/quantity.h"

namespace divvy::kube {
namespace {

namespace json = boost::json;

const json::object kEmpty;

std::string named(std::string_view name) { return escape_for_terminal(name.substr(0, 100)); }

std::string field_of(std::string_view map, std::string_view name) {
  return fmt::format("{}[\"{}\"]", map, named(name));
}

tl::unexpected<Error> wrong(std::string_view field, std::string_view what) {
  return err(ErrorCode::kInvalidArgument, "{}: {}", field, what);
}

// An object in an object; what is absent or null is empty.
Result<const json::object*> object_in(const json::object& parent, std::string_view name,
                                      std::string_view field) {
  const json::value* value = parent.if_contains(name);
  if (value == nullptr || value->is_null()) return &kEmpty;
  if (!value->is_object()) return wrong(field, "this has to be an object with named fields");
  return &value->get_object();
}

Status check_texts(const json::object& map, std::string_view field) {
  for (const auto& entry : map) {
    if (!entry.value().is_string()) {
      return wrong(field_of(field, entry.key()), "this has to be text; put it in quotes");
    }
  }
  return {};
}

std::optional<PodText> text_in(const json::object& map, std::string_view name,
                               std::string_view field) {
  const json::value* value = map.if_contains(name);
  if (value == nullptr) return std::nullopt;
  return PodText{value->get_string(), field_of(field, name)};
}

void read_environment(const json::object& document, PodContainer& container) {
  const json::value* list = document.if_contains("env");
  if (list == nullptr || !list->is_array()) return;
  for (const json::value& item : list->get_array()) {
    if (!item.is_object()) continue;
    const json::value* name = item.get_object().if_contains("name");
    const json::value* value = item.get_object().if_contains("value");
    if (name == nullptr || value == nullptr || !name->is_string() || !value->is_string()) continue;
    container.environment[std::string(name->get_string())] = std::string(value->get_string());
  }
}

}  // namespace

bool PodContainer::names(std::string_view resource) const {
  return limits->contains(resource) || requests->contains(resource);
}

Result<std::optional<PodAmount>> PodContainer::amount(std::string_view resource) const {
  std::optional<PodAmount> found;
  for (const auto& [map, part] : {std::pair{limits, "limits"}, std::pair{requests, "requests"}}) {
    const json::value* value = map->if_contains(resource);
    if (value == nullptr) continue;
    const std::string place = field_of(fmt::format("{}.resources.{}", field, part), resource);
    DIVVY_TRY(amount, with_context(whole_quantity(*value), place));
    if (found && found->amount != amount) {
      return wrong(place, fmt::format("{} is not the limit, {}; leave the request out", amount,
                                      found->amount));
    }
    if (!found) found = PodAmount{amount, place};
  }
  return found;
}

Result<PodView> PodView::create(const json::object& pod) {
  PodView view;
  DIVVY_RETURN_IF_ERROR(view.read_metadata(pod));
  DIVVY_TRY(spec, object_in(pod, "spec", "spec"));
  DIVVY_RETURN_IF_ERROR(view.read_containers(*spec, "containers", false));
  DIVVY_RETURN_IF_ERROR(view.read_containers(*spec, "initContainers", true));
  for (std::size_t i = 0; i < view.containers_.size(); ++i) {
    const PodContainer& container = view.containers_[i];
    if (view.container(container.name) != &container) {
      return wrong(container.field + ".name", "another container has the same name");
    }
  }
  if (const json::value* name = spec->if_contains("schedulerName"); name && name->is_string()) {
    view.scheduler_ = name->get_string();
  }
  if (const json::value* priority = spec->if_contains("priority")) {
    boost::system::error_code code;
    const auto number = priority->to_number<std::int64_t>(code);
    if (!code) view.priority_ = number;
  }
  return view;
}

Status PodView::read_metadata(const json::object& pod) {
  DIVVY_TRY(metadata, object_in(pod, "metadata", "metadata"));
  DIVVY_TRY(annotations, object_in(*metadata, "annotations", "metadata.annotations"));
  DIVVY_TRY(labels, object_in(*metadata, "labels", "metadata.labels"));
  DIVVY_RETURN_IF_ERROR(check_texts(*annotations, "metadata.annotations"));
  DIVVY_RETURN_IF_ERROR(check_texts(*labels, "metadata.labels"));
  annotations_ = annotations;
  labels_ = labels;
  return {};
}

Status PodView::read_containers(const json::object& spec, std::string_view list, bool init) {
  const json::value* value = spec.if_contains(list);
  if (value == nullptr || value->is_null()) return {};
  if (!value->is_array()) return wrong(fmt::format("spec.{}", list), "this has to be a list");
  const json::array& items = value->get_array();
  for (std::size_t i = 0; i < items.size(); ++i) {
    PodContainer container;
    container.field = fmt::format("spec.{}[{}]", list, i);
    if (!items[i].is_object()) {
      return wrong(container.field, "this has to be an object with named fields");
    }
    const json::object& document = items[i].get_object();
    const json::value* name = document.if_contains("name");
    if (name == nullptr || !name->is_string() || name->get_string().empty()) {
      return wrong(container.field + ".name", "a container has to have a name");
    }
    container.name = std::string(name->get_string());
    if (init) {
      const json::value* policy = document.if_contains("restartPolicy");
      const bool stays = policy != nullptr && *policy == "Always";
      container.kind = stays ? ContainerKind::kSidecar : ContainerKind::kInit;
    }
    const std::string resources_field = container.field + ".resources";
    DIVVY_TRY(resources, object_in(document, "resources", resources_field));
    DIVVY_TRY(limits, object_in(*resources, "limits", resources_field + ".limits"));
    DIVVY_TRY(requests, object_in(*resources, "requests", resources_field + ".requests"));
    container.limits = limits;
    container.requests = requests;
    read_environment(document, container);
    containers_.push_back(std::move(container));
  }
  return {};
}

std::optional<PodText> PodView::annotation(std::string_view name) const {
  return text_in(*annotations_, name, "metadata.annotations");
}

std::optional<PodText> PodView::label(std::string_view name) const {
  return text_in(*labels_, name, "metadata.labels");
}

const PodContainer* PodView::container(std::string_view name) const {
  const auto found = std::ranges::find(containers_, name, &PodContainer::name);
  return found == containers_.end() ? nullptr : &*found;
}

std::optional<std::string> PodView::first_resource(
    std::span<const std::string_view> resources) const {
  for (const PodContainer& container : containers_) {
    for (const std::string_view resource : resources) {
      if (!container.names(resource)) continue;
      const std::string_view part = container.limits->contains(resource) ? "limits" : "requests";
      return field_of(fmt::format("{}.resources.{}", container.field, part), resource);
    }
  }
  return std::nullopt;
}

std::optional<std::string> PodView::first_annotation(
    std::span<const std::string_view> names) const {
  for (const std::string_view name : names) {
    if (const auto found = annotation(name)) return found->field;
  }
  return std::nullopt;
}

}  // namespace divvy::kube
