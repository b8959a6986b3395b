#include "api/requests.h"

#include "base/memory_amount.h"
#include "model/json_fields.h"

namespace divvy::api {
namespace {

using model::JsonFields;

constexpr std::size_t kMaxCommand = 4096;
constexpr std::size_t kMostTexts = 64;

void read_texts(JsonFields& fields, std::string_view name, std::vector<std::string>& into) {
  fields.read(name, into);
  if (into.size() <= kMostTexts) return;
  fields.refuse(name, fmt::format("these are {}; {} are possible", into.size(), kMostTexts));
}

}  // namespace

Result<GrantRequest> parse_grant_request(std::string_view body) {
  DIVVY_TRY(document, model::parse_json(body));
  JsonFields fields(document);
  std::optional<std::string> gpu;
  std::optional<std::string> memory;
  bool capped = false;
  std::string command;
  model::Request::Parts rest;
  // The request takes its place when everything is read.
  GrantRequest grant{model::JobSpec(model::Request::parse("1").value()), false, {}};
  model::JobSpec& spec = grant.spec;
  fields.read("gpu", gpu);
  fields.read("memory", memory);
  fields.read("cap", capped);
  fields.read("class", spec.job_class);
  fields.read("mode", spec.mode);
  read_texts(fields, "devices", spec.devices);
  read_texts(fields, "models", rest.allowed_models);
  fields.read("name", spec.name);
  fields.read("command", command);
  fields.read("queue", spec.queue);
  fields.read("wait", grant.wait);
  fields.read("timeoutSeconds", grant.timeout_seconds);
  DIVVY_RETURN_IF_ERROR(fields.finish());
  // What is misspelt was told before what is missing because of it.
  if (!gpu && !memory) {
    return err(ErrorCode::kInvalidArgument, "gpu: it is missing: how much of a GPU, like \"0.3\"?");
  }
  if (capped) rest.kind = model::ShareKind::kCap;
  DIVVY_TRY(request, model::Request::parse(gpu, memory, std::move(rest)));
  spec.request = std::move(request);
  spec.holder = model::Holder::kProcess;
  if (!command.empty()) spec.command = {command.substr(0, kMaxCommand)};
  return grant;
}

Result<agent::SliceChange> parse_change_request(std::string_view body) {
  DIVVY_TRY(document, model::parse_json(body));
  JsonFields fields(document);
  agent::SliceChange change;
  std::optional<std::string> gpu;
  std::optional<std::string> memory;
  fields.read("gpu", gpu);
  fields.read("memory", memory);
  fields.read("cap", change.capped);
  fields.read("class", change.job_class);
  DIVVY_RETURN_IF_ERROR(fields.finish());
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
  if (!change.share && !change.memory && !change.capped && !change.job_class) {
    return err(ErrorCode::kInvalidArgument,
               "nothing to change was named: gpu, memory, cap or class");
  }
  return change;
}

}  // namespace divvy::api
