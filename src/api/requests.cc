#include "api/requests.h"

#include <boost/json.hpp>
#include <span>

#include "base/text.h"

namespace divvy::api {
namespace {

namespace json = boost::json;

constexpr std::size_t kMaxCommand = 4096;

// A JSON object whose fields are taken out one by one; what is left at the end is a mistake.
class Fields {
 public:
  static Result<Fields> parse(std::string_view body) {
    boost::system::error_code code;
    json::parse_options options;
    options.max_depth = 8;
    json::value value = json::parse(body, code, {}, options);
    if (code) return err(ErrorCode::kInvalidArgument, "the body is not JSON: {}", code.message());
    if (!value.is_object()) return err(ErrorCode::kInvalidArgument, "the body is no JSON object");
    return Fields(std::move(value.as_object()));
  }

  Result<std::optional<std::string>> text(std::string_view name) {
    const json::value* value = take(name);
    if (value == nullptr) return std::nullopt;
    if (!value->is_string()) return err(wrong(name, "text"));
    return std::string(value->as_string());
  }

  Result<std::optional<bool>> flag(std::string_view name) {
    const json::value* value = take(name);
    if (value == nullptr) return std::nullopt;
    if (!value->is_bool()) return err(wrong(name, "true or false"));
    return value->as_bool();
  }

  Result<std::optional<std::uint32_t>> number(std::string_view name) {
    const json::value* value = take(name);
    if (value == nullptr) return std::nullopt;
    boost::system::error_code code;
    const auto number = value->to_number<std::uint32_t>(code);
    if (code) return err(wrong(name, "a whole number"));
    return number;
  }

  Result<std::vector<std::string>> texts(std::string_view name) {
    const json::value* value = take(name);
    std::vector<std::string> result;
    if (value == nullptr) return result;
    if (!value->is_array() || value->as_array().size() > 64) {
      return err(wrong(name, "a list of texts"));
    }
    for (const json::value& item : value->as_array()) {
      if (!item.is_string()) return err(wrong(name, "a list of texts"));
      result.emplace_back(item.as_string());
    }
    return result;
  }

  Status nothing_left() const {
    for (const auto& entry : object_) {
      const std::string_view name = entry.key();
      if (std::ranges::find(known_, name) != known_.end()) continue;
      std::string text = fmt::format("there is no field \"{}\"", escape_for_terminal(name));
      if (const auto meant = did_you_mean(name, std::span<const std::string>(known_))) {
        text += fmt::format("; did you mean \"{}\"?", *meant);
      }
      return err(ErrorCode::kInvalidArgument, "{}", text);
    }
    return {};
  }

 private:
  explicit Fields(json::object object) : object_(std::move(object)) {}

  const json::value* take(std::string_view name) {
    known_.emplace_back(name);
    const json::value* value = object_.if_contains(name);
    return value == nullptr || value->is_null() ? nullptr : value;
  }

  static Error wrong(std::string_view name, std::string_view what) {
    return {ErrorCode::kInvalidArgument, fmt::format("\"{}\" has to be {}", name, what)};
  }

  json::object object_;
  std::vector<std::string> known_;
};

}  // namespace

Result<GrantRequest> parse_grant_request(std::string_view body, node::GpuMode default_mode) {
  DIVVY_TRY(fields, Fields::parse(body));
  DIVVY_TRY(gpu, fields.text("gpu"));
  DIVVY_TRY(memory, fields.text("memory"));
  DIVVY_TRY(capped, fields.flag("cap"));
  DIVVY_TRY(class_text, fields.text("class"));
  DIVVY_TRY(mode_text, fields.text("mode"));
  DIVVY_TRY(devices, fields.texts("devices"));
  DIVVY_TRY(name, fields.text("name"));
  DIVVY_TRY(command, fields.text("command"));
  DIVVY_TRY(wait, fields.flag("wait"));
  DIVVY_TRY(timeout, fields.number("timeoutSeconds"));
  DIVVY_CHECK_OK(fields.nothing_left());
  if (!gpu) return err(ErrorCode::kInvalidArgument, "\"gpu\" is missing: how much of a GPU?");

  model::Request::Parts rest;
  if (capped.value_or(false)) rest.kind = model::ShareKind::kCap;
  DIVVY_TRY(request,
            model::Request::parse(
                *gpu, memory ? std::optional<std::string_view>(*memory) : std::nullopt, rest));
  const node::GpuMode unnamed =
      request.gpus_per_member() == 1 ? default_mode : node::GpuMode::kTimeslice;
  GrantRequest result{node::Ask{.request = std::move(request),
                                .devices = std::move(devices),
                                .mode = unnamed,
                                .tenant_class = node::TenantClass::kBatch,
                                .name = name.value_or(""),
                                .command = command.value_or("").substr(0, kMaxCommand),
                                .peer = {}},
                      wait.value_or(false), timeout};
  if (class_text) {
    DIVVY_TRY(tenant_class, node::parse_tenant_class(*class_text));
    result.ask.tenant_class = tenant_class;
  }
  if (mode_text) {
    DIVVY_TRY(mode, node::parse_gpu_mode(*mode_text));
    result.ask.mode = mode;
  }
  return result;
}

Result<node::Change> parse_change_request(std::string_view body) {
  DIVVY_TRY(fields, Fields::parse(body));
  DIVVY_TRY(gpu, fields.text("gpu"));
  DIVVY_TRY(memory, fields.text("memory"));
  DIVVY_TRY(capped, fields.flag("cap"));
  DIVVY_TRY(class_text, fields.text("class"));
  DIVVY_CHECK_OK(fields.nothing_left());
  node::Change change;
  if (gpu) {
    DIVVY_TRY(share, with_context(parse_share(*gpu), "--gpu"));
    if (share == Share(0)) {
      return err(ErrorCode::kOutOfRange, "a share of 0 is nothing; the smallest is 0.001");
    }
    change.share = share;
  }
  if (memory) {
    DIVVY_TRY(bytes, with_context(parse_bytes(*memory), "--gpu-mem"));
    change.memory = bytes;
  }
  change.capped = capped;
  if (class_text) {
    DIVVY_TRY(tenant_class, node::parse_tenant_class(*class_text));
    change.tenant_class = tenant_class;
  }
  if (!change.share && !change.memory && !change.capped && !change.tenant_class) {
    return err(ErrorCode::kInvalidArgument,
               "nothing to change was named: gpu, memory, cap or class");
  }
  return change;
}

}  // namespace divvy::api
