#include "inject/cdi_spec.h"

#include <algorithm>
#include <boost/json.hpp>
#include <set>

#include "base/text.h"

namespace divvy::inject {
namespace {

namespace json = boost::json;

bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }
bool is_digit(char c) { return c >= '0' && c <= '9'; }

// Letters and digits at both ends, those and `inner` between.
bool is_plain(std::string_view text, std::string_view inner) {
  if (text.empty()) return false;
  const auto outer = [](char c) { return is_letter(c) || is_digit(c); };
  return outer(text.front()) && outer(text.back()) && std::ranges::all_of(text, [&](char c) {
           return outer(c) || inner.find(c) != std::string_view::npos;
         });
}

Status check_kind(const std::string& kind) {
  const std::size_t slash = kind.find('/');
  const std::string_view vendor = std::string_view(kind).substr(0, slash);
  const bool good =
      slash != std::string::npos && is_plain(vendor, "_-.") && is_letter(vendor.front()) &&
      is_plain(std::string_view(kind).substr(slash + 1), "_-") && is_letter(kind[slash + 1]);
  if (good) return {};
  return err(ErrorCode::kInvalidArgument, "\"{}\" is no kind of device like vendor.com/class",
             escape_for_terminal(kind));
}

Status check_edits(const CdiEdits& edits) {
  const auto refuse = [](std::string_view what, const std::string& text) {
    return err(ErrorCode::kInvalidArgument, "\"{}\" is no {}", escape_for_terminal(text), what);
  };
  for (const std::string& variable : edits.env) {
    const std::size_t end = variable.find('=');
    if (end == 0 || end == std::string::npos) return refuse("NAME=VALUE", variable);
  }
  for (const CdiDeviceNode& node : edits.device_nodes) {
    if (!node.path.starts_with('/')) return refuse("absolute path", node.path);
    if (!node.host_path.empty() && !node.host_path.starts_with('/')) {
      return refuse("absolute path", node.host_path);
    }
  }
  for (const CdiMount& mount : edits.mounts) {
    for (const std::string& path : {mount.host_path, mount.container_path}) {
      if (!path.starts_with('/')) return refuse("absolute path", path);
    }
  }
  return {};
}

bool needs_host_path(const CdiEdits& edits) {
  return std::ranges::any_of(edits.device_nodes,
                             [](const CdiDeviceNode& node) { return !node.host_path.empty(); });
}

json::object to_value(const CdiEdits& edits) {
  json::object result;
  if (!edits.env.empty()) result["env"] = json::value_from(edits.env);
  json::array nodes;
  for (const CdiDeviceNode& node : edits.device_nodes) {
    json::object one{{"path", node.path}};
    if (!node.host_path.empty()) one["hostPath"] = node.host_path;
    nodes.push_back(std::move(one));
  }
  if (!nodes.empty()) result["deviceNodes"] = std::move(nodes);
  json::array mounts;
  for (const CdiMount& mount : edits.mounts) {
    json::object one{{"hostPath", mount.host_path}, {"containerPath", mount.container_path}};
    if (!mount.options.empty()) one["options"] = json::value_from(mount.options);
    mounts.push_back(std::move(one));
  }
  if (!mounts.empty()) result["mounts"] = std::move(mounts);
  return result;
}

bool is_short(const json::value& value) {
  if (value.is_object()) return value.as_object().empty();
  if (!value.is_array()) return true;
  return std::ranges::none_of(value.as_array(), [](const json::value& item) {
    return item.is_object() || item.is_array() || item.as_string().size() > 12;
  });
}

// A list of short words stays on its line.
void write(std::string& out, const json::value& value, std::size_t depth) {
  if (is_short(value)) {
    out += json::serialize(value);
    return;
  }
  const std::string indent(2 * (depth + 1), ' ');
  bool first = true;
  const auto next = [&] {
    out += first ? "\n" : ",\n";
    out += indent;
    first = false;
  };
  if (value.is_object()) {
    out += '{';
    for (const auto& entry : value.as_object()) {
      next();
      out += json::serialize(json::value(entry.key())) + ": ";
      write(out, entry.value(), depth + 1);
    }
  } else {
    out += '[';
    for (const json::value& item : value.as_array()) {
      next();
      write(out, item, depth + 1);
    }
  }
  out += "\n" + std::string(2 * depth, ' ');
  out += value.is_object() ? '}' : ']';
}

}  // namespace

Status check(const CdiSpec& spec) {
  DIVVY_RETURN_IF_ERROR(check_kind(spec.kind));
  if (spec.devices.empty()) return err(ErrorCode::kInvalidArgument, "there is no device in it");
  std::set<std::string> names;
  for (const CdiDevice& device : spec.devices) {
    if (!is_plain(device.name, "_-.:")) {
      return err(ErrorCode::kInvalidArgument,
                 "\"{}\" cannot be the name of a container's device; write it like web or train-7b",
                 escape_for_terminal(device.name));
    }
    if (!names.insert(device.name).second) {
      return err(ErrorCode::kInvalidArgument, "two devices are named {}", device.name);
    }
    if (device.edits == CdiEdits{}) {
      return err(ErrorCode::kInvalidArgument, "the device {} does nothing", device.name);
    }
    DIVVY_RETURN_IF_ERROR(check_edits(device.edits));
  }
  return check_edits(spec.edits);
}

std::string_view minimum_version(const CdiSpec& spec) {
  const bool new_fields =
      needs_host_path(spec.edits) || std::ranges::any_of(spec.devices, [](const CdiDevice& device) {
        return is_digit(device.name.front()) || needs_host_path(device.edits);
      });
  return new_fields ? "0.5.0" : "0.3.0";
}

std::string to_json(const CdiSpec& spec) {
  json::object document{{"cdiVersion", minimum_version(spec)}, {"kind", spec.kind}};
  json::array devices;
  for (const CdiDevice& device : spec.devices) {
    devices.push_back({{"name", device.name}, {"containerEdits", to_value(device.edits)}});
  }
  document["devices"] = std::move(devices);
  if (spec.edits != CdiEdits{}) document["containerEdits"] = to_value(spec.edits);
  std::string out;
  write(out, document, 0);
  return out + "\n";
}

std::string kind_of_cdi_file(std::string_view text) {
  boost::system::error_code code;
  const json::value document = json::parse(text, code);
  if (code || !document.is_object()) return {};
  const json::value* version = document.as_object().if_contains("cdiVersion");
  const json::value* kind = document.as_object().if_contains("kind");
  if (version == nullptr || kind == nullptr || !kind->is_string()) return {};
  return std::string(kind->as_string());
}

}  // namespace divvy::inject
