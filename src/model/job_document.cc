#include "model/job_document.h"

#include "model/json_fields.h"
#include "model/seconds.h"

namespace divvy::model {
namespace {

namespace json = boost::json;

json::value ulimit_value(std::uint64_t limit) {
  return limit == Ulimit::kUnlimited ? json::value("unlimited") : json::value(limit);
}

Result<Request> read_request(JsonFields& fields) {
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

void read_container(JsonFields& fields, ContainerSpec& container) {
  fields.read("image", container.image);
  fields.read_list("mounts", [&](const json::value& item, const std::string& place) {
    fields.inside(item, place, [&](JsonFields& inside) {
      Mount& mount = container.mounts.emplace_back();
      inside.read("source", mount.source);
      inside.read("target", mount.target);
      inside.read("read_only", mount.read_only);
    });
  });
  fields.read_list("ports", [&](const json::value& item, const std::string& place) {
    fields.inside(item, place, [&](JsonFields& inside) {
      PublishedPort& port = container.ports.emplace_back();
      inside.read("host", port.host);
      inside.read("container", port.container);
    });
  });
  fields.read("entry_point", container.entry_point);
}

void read_limits(JsonFields& fields, MemberLimits& limits) {
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
                    fields.inside(item, place, [&](JsonFields& inside) {
                      Ulimit soft;
                      Ulimit hard;
                      inside.read("soft", soft);
                      inside.read("hard", hard);
                      limit = {soft.soft, hard.hard};
                    });
                  });
}

void read_after(JsonFields& fields, std::vector<Dependency>& after) {
  fields.read_list("after", [&](const json::value& item, const std::string& place) {
    std::uint64_t job = 0;
    Dependency& dependency = after.emplace_back();
    if (item.is_number()) {
      if (Refusal refusal = take(item, job)) fields.refuse(place, *refusal);
    } else {
      fields.inside(item, place, [&](JsonFields& inside) {
        inside.read("job", job);
        inside.read("kind", dependency.kind);
      });
    }
    dependency.job = JobId(job);
  });
}

void read_where(JsonFields& fields, Where& where) {
  fields.read("nodes", where.nodes);
  fields.read("nodes_denied", where.nodes_denied);
  fields.read("node_labels", where.node_labels);
  fields.read("tolerations", where.tolerations);
  const auto read_near = [&](std::string_view name, Near& near) {
    fields.inside(name, [&](JsonFields& inside) {
      inside.read("closeness", near.closeness);
      inside.read("required", near.required);
    });
  };
  read_near("gpus_near", where.gpus_near);
  read_near("members_near", where.members_near);
  fields.inside("spread", [&](JsonFields& inside) {
    Spread& spread = where.spread.emplace();
    inside.read("domain", spread.domain);
    inside.read("most", spread.most);
  });
}

void read_rest(JsonFields& fields, JobSpec& spec) {
  fields.read("name", spec.name);
  fields.read("queue", spec.queue);
  fields.read("command", spec.command);
  fields.read("environment", spec.environment);
  fields.read("secrets", spec.secrets);
  fields.read("working_directory", spec.working_directory);
  fields.read("stdin", spec.keep_input);
  fields.inside("container",
                [&](JsonFields& inside) { read_container(inside, spec.container.emplace()); });
  fields.read("least_members", spec.least_members);
  fields.read("devices", spec.devices);
  fields.inside("where", [&](JsonFields& inside) { read_where(inside, spec.where); });
  fields.read("class", spec.job_class);
  fields.inside("limits", [&](JsonFields& inside) { read_limits(inside, spec.limits); });
  fields.read("priority", spec.priority);
  fields.read("preemptible", spec.preemptible);
  fields.read("grace", spec.grace);
  fields.read("minimum_run", spec.minimum_run);
  fields.read("time_limit", spec.time_limit);
  fields.read("expected", spec.expected);
  fields.inside("array", [&](JsonFields& inside) {
    ArraySpec& array = spec.array.emplace();
    inside.read("first", array.first);
    inside.read("last", array.last);
    inside.read("step", array.step);
    inside.read("at_once", array.at_once);
  });
  read_after(fields, spec.after);
  fields.inside("retry", [&](JsonFields& inside) {
    inside.read("most", spec.retry.most);
    inside.read("pause", spec.retry.pause);
    inside.read("longest_pause", spec.retry.longest_pause);
  });
  fields.read("labels", spec.labels);
  fields.read("holder", spec.holder);
  fields.read("mode", spec.mode);
  fields.inside("notify", [&](JsonFields& inside) {
    Notify& notify = spec.notify.emplace();
    inside.need("url", notify.url);
    inside.read("on", notify.on);
  });
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

json::value notify_document(const std::optional<Notify>& notify) {
  if (!notify) return nullptr;
  json::array on;
  for (const JobEnd end : notify->on) on.emplace_back(to_string(end));
  return json::object{{"url", notify->url}, {"on", std::move(on)}};
}

}  // namespace

std::string write_job_spec(const JobSpec& spec) {
  const Request& request = spec.request;
  return json::serialize(json::object{
      {"name", spec.name},
      {"queue", spec.queue},
      {"command", list_of(spec.command)},
      {"environment", map_of(spec.environment)},
      {"secrets", map_of(spec.secrets)},
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
      {"notify", notify_document(spec.notify)},
      {"hold_for_capacity", spec.hold_for_capacity}});
}

Result<JobSpec> read_job_spec(std::string_view text) {
  // Thrown away as a whole: most documents need no memory but this.
  unsigned char block[8192];
  json::monotonic_resource memory(block, sizeof block);
  DIVVY_TRY(document, parse_json(text, &memory));
  JsonFields fields(document);
  auto request = read_request(fields);
  // So that there is something to read the rest into; an error of `fields` comes before its own.
  JobSpec spec(request ? *request : Request::parse("1").value());
  read_rest(fields, spec);
  DIVVY_RETURN_IF_ERROR(fields.finish());
  if (!request) return err(std::move(request).error());
  return spec;
}

}  // namespace divvy::model
