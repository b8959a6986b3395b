#include "run/member_documents.h"

#include "model/json_fields.h"

namespace divvy::run {
namespace {

namespace json = boost::json;
using model::JsonFields;
using model::Unread;

json::array texts(const std::vector<std::string>& items) {
  json::array result;
  for (const std::string& item : items) result.emplace_back(item);
  return result;
}

json::object pairs(const std::map<std::string, std::string>& items) {
  json::object result;
  for (const auto& [name, value] : items) result[name] = value;
  return result;
}

json::object limits_object(const model::MemberLimits& limits) {
  json::object result;
  if (limits.cpu_milli) result["cpuMilli"] = *limits.cpu_milli;
  if (limits.ram) result["ramBytes"] = limits.ram->count();
  if (limits.pids) result["pids"] = *limits.pids;
  if (limits.shm) result["shmBytes"] = limits.shm->count();
  json::object ulimits;
  for (const auto& [name, limit] : limits.ulimits) {
    ulimits[name] = json::object{{"soft", limit.soft}, {"hard", limit.hard}};
  }
  result["ulimits"] = std::move(ulimits);
  return result;
}

// Exact, unlike what people write.
void read_bytes(JsonFields& fields, std::string_view name, std::optional<Bytes>& into) {
  std::optional<std::uint64_t> count;
  fields.read(name, count);
  if (count) into = Bytes(*count);
}

void read_limits(JsonFields& fields, model::MemberLimits& limits) {
  fields.read("cpuMilli", limits.cpu_milli);
  fields.read("pids", limits.pids);
  read_bytes(fields, "ramBytes", limits.ram);
  read_bytes(fields, "shmBytes", limits.shm);
  fields.read_map("ulimits",
                  [&](const std::string& name, const json::value& item, const std::string& place) {
                    fields.inside(item, place, [&](JsonFields& inside) {
                      inside.read("soft", limits.ulimits[name].soft);
                      inside.read("hard", limits.ulimits[name].hard);
                    });
                  });
}

json::object container_object(const model::ContainerSpec& container) {
  json::object result{{"image", container.image}};
  json::array mounts;
  for (const model::Mount& mount : container.mounts) {
    mounts.push_back(json::object{
        {"source", mount.source}, {"target", mount.target}, {"readOnly", mount.read_only}});
  }
  json::array ports;
  for (const model::PublishedPort& port : container.ports) {
    ports.push_back(json::object{{"host", port.host}, {"container", port.container}});
  }
  result["mounts"] = std::move(mounts);
  result["ports"] = std::move(ports);
  if (container.entry_point) result["entryPoint"] = texts(*container.entry_point);
  return result;
}

void read_container(JsonFields& fields, model::ContainerSpec& container) {
  fields.read("image", container.image);
  fields.read("entryPoint", container.entry_point);
  fields.read_list("mounts", [&](const json::value& item, const std::string& place) {
    fields.inside(item, place, [&](JsonFields& inside) {
      model::Mount& mount = container.mounts.emplace_back();
      inside.read("source", mount.source);
      inside.read("target", mount.target);
      inside.read("readOnly", mount.read_only);
    });
  });
  fields.read_list("ports", [&](const json::value& item, const std::string& place) {
    fields.inside(item, place, [&](JsonFields& inside) {
      model::PublishedPort& port = container.ports.emplace_back();
      inside.read("host", port.host);
      inside.read("container", port.container);
    });
  });
}

json::object member_object(const MemberStart& member) {
  json::object result;
  result["key"] = to_string(member.key);
  result["command"] = texts(member.command);
  result["environment"] = pairs(member.environment);
  result["workingDirectory"] = member.working_directory;
  result["uid"] = member.uid;
  result["gid"] = member.gid;
  result["groups"] = json::array(member.groups.begin(), member.groups.end());
  result["limits"] = limits_object(member.limits);
  if (member.container) result["container"] = container_object(*member.container);
  result["cdiDevices"] = texts(member.cdi_devices);
  result["graceSeconds"] = member.grace.count();
  result["keepInput"] = member.keep_input;
  result["logPartBytes"] = member.log_part.count();
  result["logParts"] = member.log_parts;
  return result;
}

void read_member(JsonFields& fields, MemberStart& member) {
  if (const auto key = fields.parsed("key", model::parse_member_key)) {
    member.key = *key;
  } else {
    fields.refuse("key", "it is missing");
  }
  fields.read("command", member.command);
  fields.read("environment", member.environment);
  fields.read("workingDirectory", member.working_directory);
  // Without them it would run as root.
  fields.need("uid", member.uid);
  fields.need("gid", member.gid);
  fields.read("groups", member.groups);
  fields.inside("limits", [&](JsonFields& inside) { read_limits(inside, member.limits); });
  fields.inside("container",
                [&](JsonFields& inside) { read_container(inside, member.container.emplace()); });
  fields.read("cdiDevices", member.cdi_devices);
  std::uint32_t grace = static_cast<std::uint32_t>(member.grace.count());
  fields.read("graceSeconds", grace);
  member.grace = std::chrono::seconds(grace);
  fields.read("keepInput", member.keep_input);
  std::uint64_t part = member.log_part.count();
  fields.read("logPartBytes", part);
  member.log_part = Bytes(part);
  fields.read("logParts", member.log_parts);
}

}  // namespace

std::string to_document(const Orders& orders) {
  return json::serialize(
      json::object{{"member", member_object(orders.member)},
                   {"podman", json::object{{"program", texts(orders.podman.program)},
                                           {"runOptions", texts(orders.podman.run_options)},
                                           {"perUser", orders.podman.per_user},
                                           {"runFolder", orders.podman.run_folder},
                                           {"storage", orders.podman.storage}}},
                   {"controlGroups", orders.control_groups},
                   {"withSecrets", orders.with_secrets}});
}

std::string secrets_document(const std::map<std::string, std::string>& secrets) {
  return json::serialize(json::object{{"secrets", pairs(secrets)}});
}

Result<std::map<std::string, std::string>> parse_secrets(std::string_view text) {
  std::map<std::string, std::string> secrets;
  DIVVY_RETURN_IF_ERROR(
      model::read_own_json("secrets", text, Unread::kLeft,
                           [&](JsonFields& fields) { fields.read("secrets", secrets); }));
  return secrets;
}

Result<Orders> parse_orders(std::string_view text) {
  Orders orders;
  DIVVY_RETURN_IF_ERROR(
      model::read_own_json("orders", text, Unread::kLeft, [&](JsonFields& fields) {
        if (!fields.has("member")) fields.refuse("member", "it is missing");
        fields.inside("member", [&](JsonFields& inside) { read_member(inside, orders.member); });
        fields.inside("podman", [&](JsonFields& inside) {
          inside.read("program", orders.podman.program);
          inside.read("runOptions", orders.podman.run_options);
          inside.read("perUser", orders.podman.per_user);
          inside.read("runFolder", orders.podman.run_folder);
          inside.read("storage", orders.podman.storage);
        });
        fields.read("controlGroups", orders.control_groups);
        fields.read("withSecrets", orders.with_secrets);
      }));
  return orders;
}

std::string to_document(const Watch& watch) {
  return json::serialize(
      json::object{{"shepherd", json::object{{"pid", watch.shepherd.pid},
                                             {"startTicks", watch.shepherd.start_ticks},
                                             {"boot", watch.shepherd.boot}}},
                   {"pid", watch.pid},
                   {"groups", texts(watch.groups)},
                   {"without", watch.without}});
}

Result<Watch> parse_watch(std::string_view text) {
  Watch watch;
  DIVVY_RETURN_IF_ERROR(model::read_own_json("watch", text, Unread::kLeft, [&](JsonFields& fields) {
    fields.inside("shepherd", [&](JsonFields& inside) {
      inside.read("pid", watch.shepherd.pid);
      inside.read("startTicks", watch.shepherd.start_ticks);
      inside.read("boot", watch.shepherd.boot);
    });
    fields.read("pid", watch.pid);
    fields.read("groups", watch.groups);
    fields.read("without", watch.without);
  }));
  return watch;
}

std::string to_document(const Ending& ending) {
  json::object document{{"atNs", ending.end.at.time_since_epoch().count()},
                        {"exitCode", ending.end.exit_code},
                        {"signal", ending.end.signal},
                        {"reason", ending.end.reason},
                        {"lost", ending.lost}};
  const model::MemberUse& use = ending.end.use;
  if (use.cpu) document["cpuNs"] = use.cpu->count();
  if (use.ram_peak) document["ramPeakBytes"] = use.ram_peak->count();
  return json::serialize(document);
}

Result<Ending> parse_ending(std::string_view text) {
  Ending ending;
  DIVVY_RETURN_IF_ERROR(model::read_own_json("exit", text, Unread::kLeft, [&](JsonFields& fields) {
    std::int64_t at = 0;
    std::optional<std::int64_t> cpu;
    // A success is said, never assumed.
    fields.need("atNs", at);
    fields.need("exitCode", ending.end.exit_code);
    fields.read("signal", ending.end.signal);
    fields.read("reason", ending.end.reason);
    fields.read("lost", ending.lost);
    fields.read("cpuNs", cpu);
    read_bytes(fields, "ramPeakBytes", ending.end.use.ram_peak);
    ending.end.at = WallTime(Duration(at));
    if (cpu && *cpu >= 0) ending.end.use.cpu = Duration(*cpu);
  }));
  return ending;
}

}  // namespace divvy::run
