#include "run/member_documents.h"

#include "run/json_fields.h"

namespace divvy::run {
namespace {

namespace json = boost::json;

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

model::MemberLimits read_limits(JsonFields& above, const json::object& object) {
  model::MemberLimits limits;
  JsonFields fields(object);
  fields.take("cpuMilli", limits.cpu_milli);
  fields.take("pids", limits.pids);
  std::optional<std::uint64_t> ram;
  std::optional<std::uint64_t> shm;
  fields.take("ramBytes", ram);
  fields.take("shmBytes", shm);
  if (ram) limits.ram = Bytes(*ram);
  if (shm) limits.shm = Bytes(*shm);
  const json::object* const ulimits = fields.object("ulimits");
  for (std::size_t i = 0; ulimits != nullptr && i < ulimits->size(); ++i) {
    const auto entry = ulimits->begin() + static_cast<std::ptrdiff_t>(i);
    const json::object* const pair = entry->value().if_object();
    if (pair == nullptr) {
      fields.refuse("ulimits", "does not hold pairs");
      break;
    }
    JsonFields both(*pair);
    model::Ulimit limit;
    both.take("soft", limit.soft);
    both.take("hard", limit.hard);
    fields.adopt(both.status());
    limits.ulimits[std::string(std::string_view(entry->key()))] = limit;
  }
  above.adopt(fields.status());
  return limits;
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

model::ContainerSpec read_container(JsonFields& above, const json::object& object) {
  model::ContainerSpec container;
  JsonFields fields(object);
  fields.take("image", container.image);
  fields.take("entryPoint", container.entry_point);
  for (const json::object* item : fields.objects("mounts")) {
    model::Mount mount;
    JsonFields inner(*item);
    inner.take("source", mount.source);
    inner.take("target", mount.target);
    inner.take("readOnly", mount.read_only);
    fields.adopt(inner.status());
    container.mounts.push_back(std::move(mount));
  }
  for (const json::object* item : fields.objects("ports")) {
    model::PublishedPort port;
    JsonFields inner(*item);
    inner.take("host", port.host);
    inner.take("container", port.container);
    fields.adopt(inner.status());
    container.ports.push_back(port);
  }
  above.adopt(fields.status());
  return container;
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

void read_groups(JsonFields& fields, const json::object& object, std::vector<gid_t>& groups) {
  const json::value* const found = object.if_contains("groups");
  if (found == nullptr) return;
  const json::array* const items = found->if_array();
  if (items == nullptr) return fields.refuse("groups", "is not a list");
  for (const json::value& item : *items) {
    json::error_code code;
    groups.push_back(item.to_number<gid_t>(code));
    if (code.failed()) return fields.refuse("groups", "is not a list of numbers");
  }
}

MemberStart read_member(JsonFields& above, const json::object& object) {
  MemberStart member;
  JsonFields fields(object);
  std::string key;
  fields.take("key", key);
  if (auto parsed = parse_member_key(key)) {
    member.key = *parsed;
  } else {
    fields.refuse("key", "is not the name of a member");
  }
  fields.take("command", member.command);
  fields.take("environment", member.environment);
  fields.take("workingDirectory", member.working_directory);
  // Without them it would run as root.
  std::optional<uid_t> uid;
  std::optional<gid_t> gid;
  fields.take("uid", uid);
  fields.take("gid", gid);
  if (!uid || !gid) fields.refuse("uid", "or gid is missing");
  member.uid = uid.value_or(65534);
  member.gid = gid.value_or(65534);
  read_groups(fields, object, member.groups);
  if (const json::object* limits = fields.object("limits")) {
    member.limits = read_limits(fields, *limits);
  }
  if (const json::object* container = fields.object("container")) {
    member.container = read_container(fields, *container);
  }
  fields.take("cdiDevices", member.cdi_devices);
  std::uint32_t grace = static_cast<std::uint32_t>(member.grace.count());
  fields.take("graceSeconds", grace);
  member.grace = std::chrono::seconds(grace);
  fields.take("keepInput", member.keep_input);
  std::uint64_t part = member.log_part.count();
  fields.take("logPartBytes", part);
  member.log_part = Bytes(part);
  fields.take("logParts", member.log_parts);
  above.adopt(fields.status());
  return member;
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
                   {"controlGroups", orders.control_groups}});
}

Result<Orders> parse_orders(std::string_view text) {
  DIVVY_TRY(object, parse_object(text, "orders"));
  Orders orders;
  JsonFields fields(object);
  if (const json::object* member = fields.object("member")) {
    orders.member = read_member(fields, *member);
  } else {
    fields.refuse("member", "is missing");
  }
  if (const json::object* podman = fields.object("podman")) {
    JsonFields inner(*podman);
    inner.take("program", orders.podman.program);
    inner.take("runOptions", orders.podman.run_options);
    inner.take("perUser", orders.podman.per_user);
    inner.take("runFolder", orders.podman.run_folder);
    inner.take("storage", orders.podman.storage);
    fields.adopt(inner.status());
  }
  fields.take("controlGroups", orders.control_groups);
  DIVVY_RETURN_IF_ERROR(with_context(fields.status(), "orders"));
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
  DIVVY_TRY(object, parse_object(text, "watch"));
  Watch watch;
  JsonFields fields(object);
  if (const json::object* shepherd = fields.object("shepherd")) {
    JsonFields inner(*shepherd);
    inner.take("pid", watch.shepherd.pid);
    inner.take("startTicks", watch.shepherd.start_ticks);
    inner.take("boot", watch.shepherd.boot);
    fields.adopt(inner.status());
  }
  fields.take("pid", watch.pid);
  fields.take("groups", watch.groups);
  fields.take("without", watch.without);
  DIVVY_RETURN_IF_ERROR(with_context(fields.status(), "watch"));
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
  DIVVY_TRY(object, parse_object(text, "exit"));
  Ending ending;
  JsonFields fields(object);
  std::optional<std::int64_t> at;
  std::optional<int> code;
  fields.take("atNs", at);
  fields.take("exitCode", code);
  fields.take("signal", ending.end.signal);
  fields.take("reason", ending.end.reason);
  fields.take("lost", ending.lost);
  std::optional<std::int64_t> cpu;
  std::optional<std::uint64_t> ram;
  fields.take("cpuNs", cpu);
  fields.take("ramPeakBytes", ram);
  // A success is said, never assumed.
  if (!at || !code) fields.refuse("exitCode", "or atNs is missing");
  DIVVY_RETURN_IF_ERROR(with_context(fields.status(), "exit"));
  ending.end.at = WallTime(Duration(*at));
  ending.end.exit_code = *code;
  if (cpu && *cpu >= 0) ending.end.use.cpu = Duration(*cpu);
  if (ram) ending.end.use.ram_peak = Bytes(*ram);
  return ending;
}

}  // namespace divvy::run
