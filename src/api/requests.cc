#include "api/requests.h"

#include "api/json_fields.h"
#include "base/memory_amount.h"

namespace divvy::api {
namespace {

constexpr std::size_t kMaxCommand = 4096;

}  // namespace

Result<GrantRequest> parse_grant_request(std::string_view body) {
  DIVVY_TRY(fields, JsonFields::parse(body));
  DIVVY_TRY(gpu, fields.text("gpu"));
  DIVVY_TRY(memory, fields.text("memory"));
  DIVVY_TRY(capped, fields.flag("cap"));
  DIVVY_TRY(class_text, fields.text("class"));
  DIVVY_TRY(mode_text, fields.text("mode"));
  DIVVY_TRY(devices, fields.texts("devices"));
  DIVVY_TRY(models, fields.texts("models"));
  DIVVY_TRY(name, fields.text("name"));
  DIVVY_TRY(command, fields.text("command"));
  DIVVY_TRY(queue, fields.text("queue"));
  DIVVY_TRY(wait, fields.flag("wait"));
  DIVVY_TRY(timeout, fields.number("timeoutSeconds"));
  DIVVY_RETURN_IF_ERROR(fields.nothing_left());
  if (!gpu && !memory) {
    return err(ErrorCode::kInvalidArgument, "\"gpu\" is missing: how much of a GPU?");
  }

  model::Request::Parts rest;
  rest.allowed_models = std::move(models);
  if (capped.value_or(false)) rest.kind = model::ShareKind::kCap;
  const auto typed = [](const std::optional<std::string>& text) {
    return text ? std::optional<std::string_view>(*text) : std::nullopt;
  };
  DIVVY_TRY(request, model::Request::parse(typed(gpu), typed(memory), std::move(rest)));
  model::JobSpec spec(std::move(request));
  spec.holder = model::Holder::kProcess;
  spec.name = name.value_or("");
  if (command && !command->empty()) spec.command = {command->substr(0, kMaxCommand)};
  spec.devices = std::move(devices);
  spec.queue = queue.value_or(spec.queue);
  if (class_text) {
    DIVVY_TRY(job_class, model::parse_job_class(*class_text));
    spec.job_class = job_class;
  }
  if (mode_text) {
    DIVVY_TRY(mode, model::parse_gpu_mode(*mode_text));
    spec.mode = mode;
  }
  return GrantRequest{std::move(spec), wait.value_or(false), timeout};
}

Result<agent::SliceChange> parse_change_request(std::string_view body) {
  DIVVY_TRY(fields, JsonFields::parse(body));
  DIVVY_TRY(gpu, fields.text("gpu"));
  DIVVY_TRY(memory, fields.text("memory"));
  DIVVY_TRY(capped, fields.flag("cap"));
  DIVVY_TRY(class_text, fields.text("class"));
  DIVVY_RETURN_IF_ERROR(fields.nothing_left());
  agent::SliceChange change;
  if (gpu) {
    DIVVY_TRY(share, with_context(parse_share(*gpu), "--gpu"));
    if (share == Share(0)) {
      return err(ErrorCode::kOutOfRange, "a share of 0 is nothing; the smallest is 0.001");
    }
    change.share = share;
  }
  if (memory) {
    DIVVY_TRY(bytes, with_context(parse_memory(*memory), "--gpu-mem"));
    change.memory = bytes;
  }
  change.capped = capped;
  if (class_text) {
    DIVVY_TRY(tenant_class, model::parse_job_class(*class_text));
    change.job_class = tenant_class;
  }
  if (!change.share && !change.memory && !change.capped && !change.job_class) {
    return err(ErrorCode::kInvalidArgument,
               "nothing to change was named: gpu, memory, cap or class");
  }
  return change;
}

}  // namespace divvy::api
