#include "model/job_document.h"

#include <boost/json.hpp>
#include <span>

#include "base/memory_amount.h"
#include "base/text.h"
#include "model/seconds.h"

namespace divvy::model {
namespace {

namespace json = boost::json;

// Far more than a document of ours has; deeper ones are an attack on the stack.
constexpr std::size_t kDeepest = 8;

using Refusal = std::optional<std::string>;  // What is wrong with a value; nothing: it was taken

Refusal take(const json::value& value, std::string& into) {
  if (!value.is_string()) return "this has to be text";
  into = std::string(value.as_string());
  return {};
}

Refusal take(const json::value& value, bool& into) {
  if (!value.is_bool()) return "this has to be true or false";
  into = value.as_bool();
  return {};
}

template <typename Number>
Refusal take_number(const json::value& value, Number& into) {
  boost::system::error_code code;
  const auto number = value.to_number<Number>(code);
  if (code) {
    return fmt::format("this has to be a whole number from {} to {}",
                       std::numeric_limits<Number>::min(), std::numeric_limits<Number>::max());
  }
  into = number;
  return {};
}
Refusal take(const json::value& value, std::uint16_t& into) { return take_number(value, into); }
Refusal take(const json::value& value, std::uint32_t& into) { return take_number(value, into); }
Refusal take(const json::value& value, std::uint64_t& into) { return take_number(value, into); }
Refusal take(const json::value& value, std::int32_t& into) { return take_number(value, into); }

// From what a parser of base or model made of a text.
template <typename T>
Refusal take_parsed(Result<T> parsed, T& into) {
  if (!parsed) return std::move(parsed).error().message;
  into = *std::move(parsed);
  return {};
}

Refusal take(const json::value& value, Bytes& into) {
  if (value.is_string()) return take_parsed(parse_memory(std::string(value.as_string())), into);
  std::uint64_t count = 0;
  if (take_number(value, count)) return "this has to be an amount of memory, like \"10GiB\"";
  into = Bytes(count);
  return {};
}

Refusal take(const json::value& value, Share& into) {
  if (value.is_string()) return take_parsed(parse_share(std::string(value.as_string())), into);
  // The shortest text that means the number is what was typed.
  if (value.is_double())
    return take_parsed(parse_share(fmt::format("{}", value.as_double())), into);
  if (value.is_number()) return take_parsed(parse_share(json::serialize(value)), into);
  return "this has to be a number of GPUs, like 0.3";
}

Refusal take(const json::value& value, Seconds& into) {
  if (value.is_string()) return take_parsed(parse_seconds(std::string(value.as_string())), into);
  std::uint32_t count = 0;
  if (take_number(value, count)) return "this has to be a time, like \"30m\"";
  into = Seconds(count);
  return {};
}

template <typename Enum>
Refusal take_word(const json::value& value, Enum& into, Result<Enum> (*parse)(std::string_view)) {
  if (!value.is_string()) return "this has to be text";
  return take_parsed(parse(std::string(value.as_string())), into);
}
Refusal take(const json::value& value, JobClass& into) {
  return take_word(value, into, parse_job_class);
}
Refusal take(const json::value& value, Holder& into) {
  return take_word(value, into, parse_holder);
}
Refusal take(const json::value& value, GpuMode& into) {
  return take_word(value, into, parse_gpu_mode);
}
Refusal take(const json::value& value, DependencyKind& into) {
  return take_word(value, into, parse_dependency_kind);
}
Refusal take(const json::value& value, TopologyPreference& into) {
  return take_word(value, into, parse_topology_preference);
}
Refusal take(const json::value& value, Closeness& into) {
  return take_word(value, into, parse_closeness);
}

// 64, "unlimited" or, as ulimit and podman know it, -1.
Refusal take_ulimit(const json::value& value, std::uint64_t& into) {
  const bool text = value.is_string() && value.as_string() == "unlimited";
  if (text || (value.is_int64() && value.as_int64() == -1)) {
    into = Ulimit::kUnlimited;
    return {};
  }
  if (take_number(value, into)) return "this has to be a whole number or \"unlimited\"";
  return {};
}
Refusal take(const json::value& value, Ulimit& into) {
  const Refusal refusal = take_ulimit(value, into.soft);
  into.hard = into.soft;
  return refusal;
}

json::value ulimit_value(std::uint64_t limit) {
  return limit == Ulimit::kUnlimited ? json::value("unlimited") : json::value(limit);
}

std::string named(std::string_view name) { return escape_for_terminal(name.substr(0, 100)); }

// An object whose fields are read one after the other. The first thing that is wrong stays, and
// what comes after it does nothing.
class Fields {
 public:
  Fields(const json::value& value, std::string path) : path_(std::move(path)) {
    if (value.is_object()) {
      object_ = &value.as_object();
    } else {
      refuse("", "this has to be an object with named fields");
    }
  }

  template <typename T>
  void read(std::string_view name, T& into) {
    const json::value* value = field(name);
    if (value == nullptr) return;
    if (Refusal refusal = take(*value, into)) refuse(name, *refusal);
  }

  template <typename T>
  void read(std::string_view name, std::optional<T>& into) {
    T found{};
    read(name, found);
    if (has(name)) into = std::move(found);
  }

  // The lists and maps are read item by item, each with a name of its own.
  template <typename T>
  void read(std::string_view name, std::vector<T>& into) {
    read_list(name, [&](const json::value& item, const std::string& place) {
      if (Refusal refusal = take(item, into.emplace_back())) refuse(place, *refusal);
    });
  }

  void read(std::string_view name, std::map<std::string, std::string>& into) {
    read_map(name, [&](const std::string& key, const json::value& item, const std::string& place) {
      if (item.is_string()) {
        into[key] = std::string(item.as_string());
      } else if (item.is_int64() || item.is_uint64()) {
        into[key] = json::serialize(item);  // EPOCHS: 3
      } else {
        refuse(place, "this has to be text");
      }
    });
  }

  template <typename ReadItem>
  void read_list(std::string_view name, const ReadItem& read_item) {
    const json::value* value = field(name);
    if (value == nullptr) return;
    if (!value->is_array()) {
      refuse(name, "this has to be a list");
      return;
    }
    const auto& items = value->as_array();
    for (std::size_t i = 0; i < items.size() && !error_; ++i) {
      read_item(items[i], fmt::format("{}[{}]", name, i));
    }
  }

  template <typename ReadItem>
  void read_map(std::string_view name, const ReadItem& read_item) {
    const json::value* value = field(name);
    if (value == nullptr) return;
    if (!value->is_object()) {
      refuse(name, "this has to be an object with named fields");
      return;
    }
    for (const auto& item : value->as_object()) {
      if (error_) return;
      const std::string key(item.key());
      read_item(key, item.value(), fmt::format("{}.{}", name, named(key)));
    }
  }

  // An object in this one, read by `read_inside(Fields&)`.
  template <typename ReadInside>
  void inside(std::string_view name, const ReadInside& read_inside) {
    const json::value* value = field(name);
    if (value != nullptr) inside(*value, std::string(name), read_inside);
  }
  template <typename ReadInside>
  void inside(const json::value& value, const std::string& place, const ReadInside& read_inside) {
    if (error_) return;
    Fields fields(value, path_of(place));
    if (!fields.error_) read_inside(fields);
    if (Status read = fields.finish(); !read) error_ = std::move(read).error();
  }

  // It is there, and not null, which is as good as absent.
  [[nodiscard]] bool has(std::string_view name) const {
    if (error_ || object_ == nullptr) return false;
    const json::value* value = object_->if_contains(name);
    return value != nullptr && !value->is_null();
  }

  void refuse(std::string_view place, std::string_view what) {
    if (error_) return;
    const std::string path = path_of(place);
    error_ = Error{ErrorCode::kInvalidArgument,
                   path.empty() ? std::string(what) : fmt::format("{}: {}", path, what)};
  }

  // Also refuses what nobody has read.
  Status finish() {
    if (error_) return err(*error_);
    for (const auto& entry : *object_) {
      const std::string_view name = entry.key();
      if (std::ranges::find(known_, name) != known_.end()) continue;
      const auto meant = did_you_mean(name, std::span<const std::string_view>(known_));
      return err(ErrorCode::kInvalidArgument, "{}: there is no such field{}", path_of(named(name)),
                 meant ? fmt::format("; did you mean {}?", path_of(*meant)) : "");
    }
    return {};
  }

 private:
  const json::value* field(std::string_view name) {
    known_.push_back(name);
    return has(name) ? object_->if_contains(name) : nullptr;
  }

  [[nodiscard]] std::string path_of(std::string_view place) const {
    if (path_.empty() || place.empty()) return path_ + std::string(place);
    return path_ + "." + std::string(place);
  }

  const json::object* object_ = nullptr;
  std::string path_;
  std::vector<std::string_view> known_;
  std::optional<Error> error_;
};

Result<Request> read_request(Fields& fields) {
  Request::Parts parts;
  bool cap = false;
  if (!fields.has("gpu") && !fields.has("gpu_memory")) {
    fields.refuse("gpu", "it is missing: how much of a GPU, like 0.3?");
  }
  fields.read("gpu", parts.share);
  fields.read("gpu_memory", parts.memory);
  if (fields.has("gpu") && parts.share == Share(0) && parts.memory) {
    fields.refuse("gpu_memory", "a job with gpu 0 has no GPU memory; leave one of them out");
  }
  fields.read("cap", cap);
  fields.read("models", parts.allowed_models);
  fields.read("models_denied", parts.denied_models);
  fields.read("topology", parts.topology);
  fields.read("members", parts.gang_size);
  parts.kind = cap ? ShareKind::kCap : ShareKind::kGuarantee;
  const std::string_view field = parts.memory == Bytes(0)                       ? "gpu_memory"
                                 : parts.gang_size - 1 >= Request::kMaxGangSize ? "members"
                                                                                : "models";
  return with_context(Request::create(std::move(parts)), field);
}

void read_container(Fields& fields, ContainerSpec& container) {
  fields.read("image", container.image);
  fields.read_list("mounts", [&](const json::value& item, const std::string& place) {
    fields.inside(item, place, [&](Fields& inside) {
      Mount& mount = container.mounts.emplace_back();
      inside.read("source", mount.source);
      inside.read("target", mount.target);
      inside.read("read_only", mount.read_only);
    });
  });
  fields.read_list("ports", [&](const json::value& item, const std::string& place) {
    fields.inside(item, place, [&](Fields& inside) {
      PublishedPort& port = container.ports.emplace_back();
      inside.read("host", port.host);
      inside.read("container", port.container);
    });
  });
  fields.read("entry_point", container.entry_point);
}

void read_limits(Fields& fields, MemberLimits& limits) {
  fields.read("cpu_milli", limits.cpu_milli);
  fields.read("ram", limits.ram);
  fields.read("pids", limits.pids);
  fields.read("shm", limits.shm);
  fields.read_map("ulimits",
                  [&](const std::string& name, const json::value& item, const std::string& place) {
                    Ulimit& limit = limits.ulimits[name];
                    if (!item.is_object()) {
                      if (Refusal refusal = take(item, limit)) fields.refuse(place, *refusal);
                      return;
                    }
                    fields.inside(item, place, [&](Fields& inside) {
                      Ulimit soft;
                      Ulimit hard;
                      inside.read("soft", soft);
                      inside.read("hard", hard);
                      limit = {soft.soft, hard.hard};
                    });
                  });
}

void read_after(Fields& fields, std::vector<Dependency>& after) {
  fields.read_list("after", [&](const json::value& item, const std::string& place) {
    std::uint64_t job = 0;
    Dependency& dependency = after.emplace_back();
    if (item.is_number()) {
      if (Refusal refusal = take(item, job)) fields.refuse(place, *refusal);
    } else {
      fields.inside(item, place, [&](Fields& inside) {
        inside.read("job", job);
        inside.read("kind", dependency.kind);
      });
    }
    dependency.job = JobId(job);
  });
}

void read_where(Fields& fields, Where& where) {
  fields.read("nodes", where.nodes);
  fields.read("nodes_denied", where.nodes_denied);
  fields.read("node_labels", where.node_labels);
  fields.read("tolerations", where.tolerations);
  const auto read_near = [&](std::string_view name, Near& near) {
    fields.inside(name, [&](Fields& inside) {
      inside.read("closeness", near.closeness);
      inside.read("required", near.required);
    });
  };
  read_near("gpus_near", where.gpus_near);
  read_near("members_near", where.members_near);
  fields.inside("spread", [&](Fields& inside) {
    Spread& spread = where.spread.emplace();
    inside.read("domain", spread.domain);
    inside.read("most", spread.most);
  });
}

void read_rest(Fields& fields, JobSpec& spec) {
  fields.read("name", spec.name);
  fields.read("queue", spec.queue);
  fields.read("command", spec.command);
  fields.read("environment", spec.environment);
  fields.read("working_directory", spec.working_directory);
  fields.read("stdin", spec.keep_input);
  fields.inside("container",
                [&](Fields& inside) { read_container(inside, spec.container.emplace()); });
  fields.read("least_members", spec.least_members);
  fields.read("devices", spec.devices);
  fields.inside("where", [&](Fields& inside) { read_where(inside, spec.where); });
  fields.read("class", spec.job_class);
  fields.inside("limits", [&](Fields& inside) { read_limits(inside, spec.limits); });
  fields.read("priority", spec.priority);
  fields.read("preemptible", spec.preemptible);
  fields.read("grace", spec.grace);
  fields.read("minimum_run", spec.minimum_run);
  fields.read("time_limit", spec.time_limit);
  fields.read("expected", spec.expected);
  fields.inside("array", [&](Fields& inside) {
    ArraySpec& array = spec.array.emplace();
    inside.read("first", array.first);
    inside.read("last", array.last);
    inside.read("step", array.step);
    inside.read("at_once", array.at_once);
  });
  read_after(fields, spec.after);
  fields.inside("retry", [&](Fields& inside) {
    inside.read("most", spec.retry.most);
    inside.read("pause", spec.retry.pause);
    inside.read("longest_pause", spec.retry.longest_pause);
  });
  fields.read("labels", spec.labels);
  fields.read("holder", spec.holder);
  fields.read("mode", spec.mode);
  fields.read("hold_for_capacity", spec.hold_for_capacity);
}

template <typename T>
json::array list_of(const std::vector<T>& items) {
  json::array list;
  for (const T& item : items) list.emplace_back(item);
  return list;
}

json::object map_of(const std::map<std::string, std::string>& items) {
  json::object map;
  for (const auto& [key, value] : items) map[key] = value;
  return map;
}

json::value container_document(const std::optional<ContainerSpec>& container) {
  if (!container) return nullptr;
  json::array mounts;
  for (const Mount& mount : container->mounts) {
    mounts.push_back(json::object{
        {"source", mount.source}, {"target", mount.target}, {"read_only", mount.read_only}});
  }
  json::array ports;
  for (const PublishedPort& port : container->ports) {
    ports.push_back(json::object{{"host", port.host}, {"container", port.container}});
  }
  return json::object{
      {"image", container->image},
      {"mounts", std::move(mounts)},
      {"ports", std::move(ports)},
      {"entry_point", container->entry_point ? json::value(list_of(*container->entry_point))
                                             : json::value(nullptr)}};
}

template <typename T>
json::value number_or_null(const std::optional<T>& value) {
  return value ? json::value(*value) : json::value(nullptr);
}
json::value text_or_null(std::optional<Bytes> value) {
  return value ? json::value(to_string(*value)) : json::value(nullptr);
}
json::value text_or_null(std::optional<Seconds> value) {
  return value ? json::value(seconds_text(*value)) : json::value(nullptr);
}

json::object limits_document(const MemberLimits& limits) {
  json::object ulimits;
  for (const auto& [name, limit] : limits.ulimits) {
    ulimits[name] =
        json::object{{"soft", ulimit_value(limit.soft)}, {"hard", ulimit_value(limit.hard)}};
  }
  return {{"cpu_milli", number_or_null(limits.cpu_milli)},
          {"ram", text_or_null(limits.ram)},
          {"pids", number_or_null(limits.pids)},
          {"shm", text_or_null(limits.shm)},
          {"ulimits", std::move(ulimits)}};
}

json::object where_document(const Where& where) {
  const auto near = [](const Near& value) {
    return json::object{{"closeness", to_string(value.closeness)}, {"required", value.required}};
  };
  json::value spread(nullptr);
  if (where.spread) {
    spread =
        json::object{{"domain", to_string(where.spread->domain)}, {"most", where.spread->most}};
  }
  return {{"nodes", list_of(where.nodes)},
          {"nodes_denied", list_of(where.nodes_denied)},
          {"node_labels", map_of(where.node_labels)},
          {"tolerations", list_of(where.tolerations)},
          {"gpus_near", near(where.gpus_near)},
          {"members_near", near(where.members_near)},
          {"spread", std::move(spread)}};
}

json::value array_document(const std::optional<ArraySpec>& array) {
  if (!array) return nullptr;
  return json::object{{"first", array->first},
                      {"last", array->last},
                      {"step", array->step},
                      {"at_once", array->at_once}};
}

json::array after_document(const std::vector<Dependency>& after) {
  json::array list;
  for (const Dependency& dependency : after) {
    list.push_back(
        json::object{{"job", dependency.job.value()}, {"kind", to_string(dependency.kind)}});
  }
  return list;
}

}  // namespace

std::string write_job_spec(const JobSpec& spec) {
  const Request& request = spec.request;
  return json::serialize(json::object{
      {"name", spec.name},
      {"queue", spec.queue},
      {"command", list_of(spec.command)},
      {"environment", map_of(spec.environment)},
      {"working_directory", spec.working_directory},
      {"container", container_document(spec.container)},
      {"gpu", request.by_memory() ? json::value(nullptr) : json::value(to_string(request.share()))},
      {"gpu_memory", text_or_null(request.memory())},
      {"cap", request.kind() == ShareKind::kCap},
      {"models", list_of(request.allowed_models())},
      {"models_denied", list_of(request.denied_models())},
      {"topology", to_string(request.topology())},
      {"members", request.gang_size()},
      {"least_members", spec.least_members},
      {"devices", list_of(spec.devices)},
      {"where", where_document(spec.where)},
      {"class", to_string(spec.job_class)},
      {"limits", limits_document(spec.limits)},
      {"stdin", spec.keep_input},
      {"priority", spec.priority},
      {"preemptible", spec.preemptible},
      {"grace", seconds_text(spec.grace)},
      {"minimum_run", seconds_text(spec.minimum_run)},
      {"time_limit", text_or_null(spec.time_limit)},
      {"expected", text_or_null(spec.expected)},
      {"array", array_document(spec.array)},
      {"after", after_document(spec.after)},
      {"retry", json::object{{"most", spec.retry.most},
                             {"pause", seconds_text(spec.retry.pause)},
                             {"longest_pause", seconds_text(spec.retry.longest_pause)}}},
      {"labels", map_of(spec.labels)},
      {"holder", to_string(spec.holder)},
      {"mode", spec.mode ? json::value(to_string(*spec.mode)) : json::value(nullptr)},
      {"hold_for_capacity", spec.hold_for_capacity}});
}

Result<JobSpec> read_job_spec(std::string_view text) {
  boost::system::error_code code;
  json::parse_options options;
  options.max_depth = kDeepest;
  // Thrown away as a whole: most documents need no memory but this.
  unsigned char block[8192];
  json::monotonic_resource memory(block, sizeof block);
  const json::value document = json::parse(text, code, &memory, options);
  if (code) return err(ErrorCode::kInvalidArgument, "this is not JSON: {}", code.message());
  Fields fields(document, "");
  auto request = read_request(fields);
  // So that there is something to read the rest into; an error of `fields` comes before its own.
  JobSpec spec(request ? *request : Request::parse("1").value());
  read_rest(fields, spec);
  DIVVY_RETURN_IF_ERROR(fields.finish());
  if (!request) return err(std::move(request).error());
  return spec;
}

}  // namespace divvy::model
