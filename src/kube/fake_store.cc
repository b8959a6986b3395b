#include "kube/fake_store.h"

#include <boost/json.hpp>
#include <set>

#include "base/time_text.h"
#include "kube/json_patch.h"
#include "kube/selector.h"

namespace divvy::kube {
namespace {

namespace json = boost::json;

constexpr std::string_view kPods = "/api/v1/pods";

json::object& metadata_of(json::object& object) {
  json::value& metadata = object["metadata"];
  if (!metadata.is_object()) metadata = json::object();
  return metadata.as_object();
}

bool has_finalizers(const json::object& object) {
  const json::value* metadata = object.if_contains("metadata");
  const json::value* list =
      metadata == nullptr ? nullptr : metadata->as_object().if_contains("finalizers");
  return list != nullptr && list->is_array() && !list->as_array().empty();
}

bool is_deleted(const json::object& object) {
  return !text_at(object, "metadata.deletionTimestamp").empty();
}

// Where the server insists on a resource version: leases and what a CRD defines.
bool needs_version(const std::string& group_version) {
  if (group_version == "/apis/coordination.k8s.io/v1") return true;
  const bool custom = group_version.starts_with("/apis/") &&
                      group_version.find('.') != std::string::npos &&
                      group_version.find(".k8s.io/") == std::string::npos;
  return custom;
}

std::string title(const ResourcePath& path) {
  const std::string_view whole = path.group_version;
  const std::string_view group =
      whole.starts_with("/apis/") ? whole.substr(6, whole.rfind('/') - 6) : std::string_view();
  return group.empty() ? path.resource : fmt::format("{}.{}", path.resource, group);
}

tl::unexpected<Error> conflict(const ResourcePath& path, std::string_view why) {
  return err(ErrorCode::kFailedPrecondition, "Operation cannot be fulfilled on {} \"{}\": {}",
             title(path), path.name, why);
}

tl::unexpected<Error> invalid(const ResourcePath& path, std::string_view why) {
  return err(ErrorCode::kInvalidArgument, "{} \"{}\" is invalid: {}", title(path), path.name, why);
}

// A precondition that the caller named (uid, resource version) and that does not hold.
Status check_same(const ResourcePath& path, const json::object& asked, const json::object& is,
                  std::string_view field) {
  const std::string_view wanted = text_at(asked, fmt::format("metadata.{}", field));
  const std::string_view actual = text_at(is, fmt::format("metadata.{}", field));
  if (wanted.empty() || wanted == actual) return {};
  if (field == "uid") {
    return conflict(path, fmt::format("Precondition failed: UID in precondition: {}, UID in object "
                                      "meta: {}",
                                      wanted, actual));
  }
  return conflict(path,
                  "the object has been modified; please apply your changes to the latest version "
                  "and try again");
}

json::value member(const json::object& object, std::string_view name) {
  const json::value* value = object.if_contains(name);
  return value == nullptr ? json::value() : *value;
}

void set_member(json::object& object, std::string_view name, const json::value& value) {
  if (value.is_null()) {
    object.erase(name);
  } else {
    object[name] = value;
  }
}

// What nobody may change from outside comes from the object as it was.
void keep_server_fields(const json::object& before, json::object& after) {
  const json::object& old = before.at("metadata").as_object();
  json::object& metadata = metadata_of(after);
  for (const std::string_view field :
       {"name", "namespace", "uid", "creationTimestamp", "resourceVersion", "generation",
        "deletionTimestamp", "deletionGracePeriodSeconds"}) {
    set_member(metadata, field, member(old, field));
  }
  for (const std::string_view field : {"apiVersion", "kind"}) {
    if (after.if_contains(field) == nullptr) set_member(after, field, member(before, field));
  }
}

Status check_pod(const ResourcePath& path, const json::object& before, const json::object& after) {
  const auto gates = [](const json::object& pod) {
    std::set<std::string> names;
    const json::value* spec = pod.if_contains("spec");
    const json::value* list = spec != nullptr && spec->is_object()
                                  ? spec->as_object().if_contains("schedulingGates")
                                  : nullptr;
    if (list == nullptr || !list->is_array()) return names;
    for (const json::value& gate : list->as_array()) {
      if (gate.is_object()) names.emplace(text_at(gate.as_object(), "name"));
    }
    return names;
  };
  const std::set<std::string> had = gates(before);
  for (const std::string& gate : gates(after)) {
    if (!had.contains(gate)) {
      return invalid(path,
                     "spec.schedulingGates: Forbidden: only deletion is allowed, but found "
                     "new scheduling gate '" +
                         gate + "'");
    }
  }
  if (text_at(before, "spec.nodeName") != text_at(after, "spec.nodeName")) {
    return invalid(path, "spec: Forbidden: pod updates may not change fields other than a few");
  }
  return {};
}

}  // namespace

std::string FakeStore::random_letters(std::size_t count) {
  constexpr std::string_view kLetters = "bcdfghjklmnpqrstvwxz2456789";
  std::string letters;
  for (std::size_t i = 0; i < count; ++i) letters += kLetters[random_() % kLetters.size()];
  return letters;
}

std::string FakeStore::new_uid() {
  return fmt::format("{:08x}-{:04x}-4{:03x}-8{:03x}-{:08x}{:04x}", random_(), random_() & 0xffffU,
                     random_() & 0xfffU, random_() & 0xfffU, random_(), random_() & 0xffffU);
}

std::string FakeStore::time_now() const { return time_text(clock_.wall_now()).substr(0, 19) + "Z"; }

void FakeStore::record(const std::string& kind, Object before, json::object* after) {
  ++revision_;
  const std::string version = std::to_string(revision_);
  Object now;
  if (after != nullptr) {
    metadata_of(*after)["resourceVersion"] = version;
    now = std::make_shared<const json::object>(std::move(*after));
    objects_[kind][{std::string(text_at(*now, "metadata.namespace")),
                    std::string(text_at(*now, "metadata.name"))}] = now;
  } else {
    // What a watch says of something that is gone carries the version at which it went.
    json::object last = *before;
    metadata_of(last)["resourceVersion"] = version;
    before = std::make_shared<const json::object>(std::move(last));
    objects_[kind].erase({std::string(text_at(*before, "metadata.namespace")),
                          std::string(text_at(*before, "metadata.name"))});
  }
  changes_[kind].push_back({revision_, std::move(before), std::move(now)});
}

Result<FakeStore::Object> FakeStore::find(const ResourcePath& path) const {
  const auto kind = objects_.find(path.kind_path());
  if (kind != objects_.end()) {
    const auto found = kind->second.find({path.space, path.name});
    if (found != kind->second.end()) return found->second;
  }
  return err(ErrorCode::kNotFound, "{} \"{}\" not found", title(path), path.name);
}

Result<FakeStore::Object> FakeStore::create(const ResourcePath& path, json::object object) {
  if (path.subresource == "binding") return bind(path, object);
  if (path.subresource == "eviction") {
    DIVVY_TRY(pod, find(path));
    const json::value* options = object.if_contains("deleteOptions");
    ResourcePath whole = path;
    whole.subresource.clear();
    DIVVY_RETURN_IF_ERROR(remove(
        whole, options != nullptr && options->is_object() ? options->as_object() : json::object()));
    return pod;
  }
  if (!path.name.empty()) {
    return err(ErrorCode::kUnsupported, "the fake API server has no {}/{} to create", path.resource,
               path.subresource);
  }
  json::object& metadata = metadata_of(object);
  ResourcePath named = path;
  named.name = text_at(object, "metadata.name");
  const std::string prefix(text_at(object, "metadata.generateName"));
  if (named.name.empty() && !prefix.empty()) named.name = prefix + random_letters(5);
  if (named.name.empty()) return invalid(named, "metadata.name: Required value");
  const std::string_view space = text_at(object, "metadata.namespace");
  if (!space.empty() && space != path.space) {
    return err(ErrorCode::kInvalidArgument,
               "the namespace of the provided object does not match the namespace sent on the "
               "request");
  }
  if (find(named)) {
    return err(ErrorCode::kAlreadyExists, "{} \"{}\" already exists", title(path), named.name);
  }
  metadata["name"] = named.name;
  if (!path.space.empty()) metadata["namespace"] = path.space;
  for (const char* field : {"deletionTimestamp", "deletionGracePeriodSeconds"}) {
    metadata.erase(field);
  }
  metadata["uid"] = new_uid();
  metadata["creationTimestamp"] = time_now();
  metadata["generation"] = 1;
  object.erase("status");
  if (path.kind_path() == kPods) object["status"] = {{"phase", "Pending"}};
  record(path.kind_path(), nullptr, &object);
  return find(named);
}

FakeStore::Object FakeStore::put(const ResourcePath& collection, json::object object) {
  ResourcePath path = collection;
  json::object& metadata = metadata_of(object);
  path.name = text_at(object, "metadata.name");
  if (!path.space.empty()) metadata["namespace"] = path.space;
  path.space = text_at(object, "metadata.namespace");
  const auto before = find(path);
  if (before) {
    keep_server_fields(**before, object);
  } else {
    if (text_at(object, "metadata.uid").empty()) metadata["uid"] = new_uid();
    if (!metadata.contains("creationTimestamp")) metadata["creationTimestamp"] = time_now();
    if (!metadata.contains("generation")) metadata["generation"] = 1;
  }
  record(path.kind_path(), before ? *before : nullptr, &object);
  return *find(path);
}

// Every way in which something that exists is changed ends here.
Result<FakeStore::Object> FakeStore::change(const ResourcePath& path, const Object& before,
                                            json::object after) {
  DIVVY_RETURN_IF_ERROR(check_same(path, after, *before, "uid"));
  DIVVY_RETURN_IF_ERROR(check_same(path, after, *before, "resourceVersion"));
  if (path.subresource == "status") {
    json::value status = member(after, "status");
    after = *before;
    set_member(after, "status", status);
  } else if (path.subresource.empty()) {
    set_member(after, "status", member(*before, "status"));
    if (path.kind_path() == kPods) DIVVY_RETURN_IF_ERROR(check_pod(path, *before, after));
    if (path.resource == "resourceclaims" && member(*before, "spec") != member(after, "spec")) {
      return invalid(path, "spec: Invalid value: field is immutable");
    }
  } else {
    return err(ErrorCode::kUnsupported, "the fake API server has no {}/{} to change", path.resource,
               path.subresource);
  }
  keep_server_fields(*before, after);
  if (after == *before) return before;  // Nothing is written, and the version stays
  if (member(after, "spec") != member(*before, "spec")) {
    metadata_of(after)["generation"] = before->at("metadata").at("generation").to_number<int>() + 1;
  }
  auto result = std::make_shared<const json::object>(after);
  const bool waits_for_kubelet =
      path.kind_path() == kPods &&
      member(after.at("metadata").as_object(), "deletionGracePeriodSeconds") != json::value() &&
      member(after.at("metadata").as_object(), "deletionGracePeriodSeconds") != json::value(0);
  if (is_deleted(after) && !has_finalizers(after) && !waits_for_kubelet) {
    record(path.kind_path(), result, nullptr);
    return result;
  }
  record(path.kind_path(), before, &after);
  return find(path);
}

Result<FakeStore::Object> FakeStore::replace(const ResourcePath& path, json::object object) {
  DIVVY_TRY(before, find(path));
  if (const std::string_view name = text_at(object, "metadata.name"); name != path.name) {
    return err(ErrorCode::kInvalidArgument,
               "the name of the object ({}) does not match the name on the URL ({})", name,
               path.name);
  }
  if (needs_version(path.group_version) && text_at(object, "metadata.resourceVersion").empty()) {
    return invalid(path,
                   "metadata.resourceVersion: Invalid value: must be specified for an update");
  }
  return change(path, before, std::move(object));
}

Result<FakeStore::Object> FakeStore::patch(const ResourcePath& path, PatchType type,
                                           const json::value& patch) {
  DIVVY_TRY(before, find(path));
  json::value after;
  if (type == PatchType::kJson) {
    DIVVY_TRY(patched, apply_json_patch(*before, patch));
    after = std::move(patched);
  } else {
    after = apply_merge_patch(*before, patch);
  }
  if (!after.is_object()) return invalid(path, "a patch must leave an object");
  return change(path, before, std::move(after.as_object()));
}

Result<FakeStore::Object> FakeStore::bind(const ResourcePath& path, const json::object& binding) {
  DIVVY_TRY(before, find(path));
  if (!text_at(*before, "spec.nodeName").empty()) {
    return conflict(path, "pod is already assigned to node");
  }
  json::object after = *before;
  json::value& spec = after["spec"];
  if (!spec.is_object()) spec = json::object();
  const json::value* gates = spec.as_object().if_contains("schedulingGates");
  if (gates != nullptr && gates->is_array() && !gates->as_array().empty()) {
    return conflict(path, "pod has non-empty .spec.schedulingGates");
  }
  spec.as_object()["nodeName"] = text_at(binding, "target.name");
  record(path.kind_path(), before, &after);
  return find(path);
}

Status FakeStore::remove(const ResourcePath& path, const json::object& options) {
  if (path.name.empty()) {
    for (const Object& object : list(path)) {
      ResourcePath one = path;
      one.space = text_at(*object, "metadata.namespace");
      one.name = text_at(*object, "metadata.name");
      DIVVY_RETURN_IF_ERROR(remove(one, options));
    }
    return {};
  }
  DIVVY_TRY(before, find(path));
  const json::object asked{{"metadata", member(options, "preconditions")}};
  if (asked.at("metadata").is_object()) {
    DIVVY_RETURN_IF_ERROR(check_same(path, asked, *before, "uid"));
    DIVVY_RETURN_IF_ERROR(check_same(path, asked, *before, "resourceVersion"));
  }
  std::int64_t grace = 0;
  if (path.kind_path() == kPods) {
    const std::string_view phase = text_at(*before, "status.phase");
    const json::value spec = member(*before, "spec");
    const json::value own = spec.is_object()
                                ? member(spec.as_object(), "terminationGracePeriodSeconds")
                                : json::value();
    const json::value wanted = member(options, "gracePeriodSeconds");
    grace = wanted.is_number() ? wanted.to_number<std::int64_t>()
                               : (own.is_number() ? own.to_number<std::int64_t>() : 30);
    // Nobody has to be waited for.
    if (text_at(*before, "spec.nodeName").empty() || phase == "Succeeded" || phase == "Failed") {
      grace = 0;
    }
  }
  if (grace == 0 && !has_finalizers(*before)) {
    record(path.kind_path(), before, nullptr);
    return {};
  }
  json::object after = *before;
  json::object& metadata = metadata_of(after);
  if (!is_deleted(after)) metadata["deletionTimestamp"] = time_now();
  metadata["deletionGracePeriodSeconds"] = grace;
  if (after == *before) return {};
  record(path.kind_path(), before, &after);
  return {};
}

void FakeStore::collect_garbage() {
  std::set<std::string, std::less<>> alive;
  for (const auto& [kind, objects] : objects_) {
    for (const auto& [name, object] : objects) alive.emplace(text_at(*object, "metadata.uid"));
  }
  const auto is_orphan = [&alive](const json::object& object) {
    const json::value owners = member(object.at("metadata").as_object(), "ownerReferences");
    if (!owners.is_array() || owners.as_array().empty()) return false;
    for (const json::value& owner : owners.as_array()) {
      if (owner.is_object() && alive.contains(text_at(owner.as_object(), "uid"))) return false;
    }
    return true;
  };
  bool again = false;
  const auto all = objects_;
  for (const auto& [kind, objects] : all) {
    for (const auto& [name, object] : objects) {
      if (!is_orphan(*object) || is_deleted(*object)) continue;
      ResourcePath path;
      const std::size_t slash = kind.rfind('/');
      path.group_version = kind.substr(0, slash);
      path.resource = kind.substr(slash + 1);
      path.space = name.first;
      path.name = name.second;
      again = remove(path, {}).has_value() || again;
    }
  }
  if (again) collect_garbage();
}

std::vector<FakeStore::Object> FakeStore::list(const ResourcePath& collection) const {
  std::vector<Object> found;
  const auto kind = objects_.find(collection.kind_path());
  if (kind == objects_.end()) return found;
  for (const auto& [name, object] : kind->second) {
    if (collection.space.empty() || name.first == collection.space) found.push_back(object);
  }
  return found;
}

const std::vector<FakeStore::Change>& FakeStore::changes(const std::string& kind) const {
  static const std::vector<Change> none;
  const auto found = changes_.find(kind);
  return found == changes_.end() ? none : found->second;
}

void FakeStore::forget_changes() {
  changes_.clear();
  // One step on, so that whoever stands at the last revision is too late as well.
  oldest_ = ++revision_;
}

}  // namespace divvy::kube
