#include "run/shepherd_messages.h"

#include <signal.h>

#include "model/json_fields.h"

namespace divvy::run {
namespace {

namespace json = boost::json;
using model::JsonFields;

// Longer than any job waits.
constexpr std::uint32_t kMaxGraceSeconds = 7 * 24 * 3600;

json::value request_value(const StopRequest& request) {
  return {{"stop", {{"graceSeconds", request.grace.count()}}}};
}
json::value request_value(const ExecRequest& request) {
  json::object body;
  body["command"] = json::array(request.command.begin(), request.command.end());
  json::object environment;
  for (const auto& [name, value] : request.environment) environment[name] = value;
  body["environment"] = std::move(environment);
  body["workingDirectory"] = request.working_directory;
  if (request.terminal) {
    body["terminal"] =
        json::object{{"rows", request.terminal->rows}, {"columns", request.terminal->columns}};
  }
  return json::object{{"exec", std::move(body)}};
}
json::value request_value(const CopyRequest& request) {
  return {{"copy", {{"path", request.path}, {"out", request.out}}}};
}
json::value request_value(const AttachRequest& /*request*/) {
  return json::object{{"attach", json::object()}};
}
json::value request_value(const CloseInputRequest& /*request*/) {
  return json::object{{"closeInput", json::object()}};
}
json::value request_value(const SignalRequest& request) {
  return {{"signal", {{"number", request.signal}}}};
}

void read(JsonFields& fields, StopRequest& request) {
  std::uint32_t grace = 0;
  fields.read("graceSeconds", grace);
  if (grace > kMaxGraceSeconds) fields.refuse("graceSeconds", "it is too long");
  request.grace = std::chrono::seconds(grace);
}
void read(JsonFields& fields, ExecRequest& request) {
  fields.read("command", request.command);
  fields.read("environment", request.environment);
  fields.read("workingDirectory", request.working_directory);
  fields.inside("terminal", [&](JsonFields& inside) {
    TerminalSize& terminal = request.terminal.emplace();
    inside.read("rows", terminal.rows);
    inside.read("columns", terminal.columns);
  });
  if (request.command.empty()) fields.refuse("command", "it is empty");
  for (const std::string& word : request.command) {
    if (word.find('\0') != std::string::npos) fields.refuse("command", "a zero byte is in it");
  }
}
void read(JsonFields& fields, CopyRequest& request) {
  fields.read("path", request.path);
  fields.read("out", request.out);
  if (!request.path.starts_with('/') || request.path.find('\0') != std::string::npos) {
    fields.refuse("path", "it is not absolute");
  }
}
void read(JsonFields& /*fields*/, AttachRequest& /*request*/) {}
void read(JsonFields& /*fields*/, CloseInputRequest& /*request*/) {}
void read(JsonFields& fields, SignalRequest& request) {
  fields.read("number", request.signal);
  if (request.signal < 1 || request.signal >= NSIG) fields.refuse("number", "it is no signal");
}

template <typename Request>
void read_body(JsonFields& fields, std::string_view name, std::optional<ShepherdRequest>& found) {
  fields.inside(name, [&](JsonFields& inside) {
    Request request;
    read(inside, request);
    found = std::move(request);
  });
}

constexpr std::string_view kDone = "done";
constexpr std::string_view kStarted = "started";
constexpr std::string_view kEnded = "ended";
constexpr std::string_view kRefused = "refused";

std::string_view name_of(ShepherdAnswer::Kind kind) {
  switch (kind) {
    case ShepherdAnswer::Kind::kDone:
      return kDone;
    case ShepherdAnswer::Kind::kStarted:
      return kStarted;
    case ShepherdAnswer::Kind::kEnded:
      return kEnded;
    case ShepherdAnswer::Kind::kRefused:
      break;
  }
  return kRefused;
}

}  // namespace

std::string to_message(const ShepherdRequest& request) {
  return json::serialize(
      std::visit([](const auto& which) { return request_value(which); }, request));
}

Result<ShepherdRequest> parse_shepherd_request(std::string_view text) {
  if (text.size() > kMaxShepherdMessage)
    return err(ErrorCode::kOutOfRange, "a request is too long");
  std::optional<ShepherdRequest> found;
  DIVVY_RETURN_IF_ERROR(
      model::read_own_json("request", text, model::Unread::kLeft, [&](JsonFields& fields) {
        const std::string_view name = fields.only();
        if (name == "stop") read_body<StopRequest>(fields, name, found);
        if (name == "exec") read_body<ExecRequest>(fields, name, found);
        if (name == "copy") read_body<CopyRequest>(fields, name, found);
        if (name == "attach") read_body<AttachRequest>(fields, name, found);
        if (name == "closeInput") read_body<CloseInputRequest>(fields, name, found);
        if (name == "signal") read_body<SignalRequest>(fields, name, found);
      }));
  if (found) return *std::move(found);
  return err(ErrorCode::kUnsupported, "a shepherd of this version does not know this request");
}

std::string to_message(const ShepherdAnswer& answer) {
  return json::serialize(json::object{{"answer", name_of(answer.kind)},
                                      {"pid", answer.pid},
                                      {"exitCode", answer.exit_code},
                                      {"signal", answer.signal},
                                      {"reason", answer.reason}});
}

Result<ShepherdAnswer> parse_shepherd_answer(std::string_view text) {
  if (text.size() > kMaxShepherdMessage)
    return err(ErrorCode::kOutOfRange, "an answer is too long");
  ShepherdAnswer answer;
  DIVVY_RETURN_IF_ERROR(
      model::read_own_json("answer", text, model::Unread::kLeft, [&](JsonFields& fields) {
        std::string kind;
        fields.read("answer", kind);
        fields.read("pid", answer.pid);
        fields.read("exitCode", answer.exit_code);
        fields.read("signal", answer.signal);
        fields.read("reason", answer.reason);
        if (kind == kDone) {
          answer.kind = ShepherdAnswer::Kind::kDone;
        } else if (kind == kStarted) {
          answer.kind = ShepherdAnswer::Kind::kStarted;
        } else if (kind == kEnded) {
          answer.kind = ShepherdAnswer::Kind::kEnded;
        } else if (kind == kRefused) {
          answer.kind = ShepherdAnswer::Kind::kRefused;
        } else {
          fields.refuse("answer", "this version does not know this kind");
        }
      }));
  return answer;
}

}  // namespace divvy::run
