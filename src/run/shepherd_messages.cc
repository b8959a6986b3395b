#include "run/shepherd_messages.h"

#include <signal.h>

#include "run/json_fields.h"

namespace divvy::run {
namespace {

namespace json = boost::json;

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
  fields.take("graceSeconds", grace);
  if (grace > kMaxGraceSeconds) fields.refuse("graceSeconds", "is too long");
  request.grace = std::chrono::seconds(grace);
}
void read(JsonFields& fields, ExecRequest& request) {
  fields.take("command", request.command);
  fields.take("environment", request.environment);
  fields.take("workingDirectory", request.working_directory);
  if (const json::object* terminal = fields.object("terminal")) {
    JsonFields inner(*terminal);
    request.terminal.emplace();
    inner.take("rows", request.terminal->rows);
    inner.take("columns", request.terminal->columns);
    fields.adopt(inner.status());
  }
  if (request.command.empty()) fields.refuse("command", "is empty");
  for (const std::string& word : request.command) {
    if (word.find('\0') != std::string::npos) fields.refuse("command", "has a zero byte in it");
  }
}
void read(JsonFields& fields, CopyRequest& request) {
  fields.take("path", request.path);
  fields.take("out", request.out);
  if (!request.path.starts_with('/') || request.path.find('\0') != std::string::npos) {
    fields.refuse("path", "is not absolute");
  }
}
void read(JsonFields& /*fields*/, AttachRequest& /*request*/) {}
void read(JsonFields& /*fields*/, CloseInputRequest& /*request*/) {}
void read(JsonFields& fields, SignalRequest& request) {
  fields.take("number", request.signal);
  if (request.signal < 1 || request.signal >= NSIG) fields.refuse("number", "is no signal");
}

template <typename Request>
Result<ShepherdRequest> read_request(const json::object& body) {
  Request request;
  JsonFields fields(body);
  read(fields, request);
  DIVVY_RETURN_IF_ERROR(fields.status());
  return ShepherdRequest(std::move(request));
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
  DIVVY_TRY(object, parse_object(text, "request"));
  if (object.size() != 1 || !object.begin()->value().is_object()) {
    return err(ErrorCode::kInvalidArgument, "a request is one object with one object in it");
  }
  const std::string_view name = object.begin()->key();
  const json::object& body = object.begin()->value().get_object();
  if (name == "stop") return read_request<StopRequest>(body);
  if (name == "exec") return read_request<ExecRequest>(body);
  if (name == "copy") return read_request<CopyRequest>(body);
  if (name == "attach") return read_request<AttachRequest>(body);
  if (name == "closeInput") return read_request<CloseInputRequest>(body);
  if (name == "signal") return read_request<SignalRequest>(body);
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
  DIVVY_TRY(object, parse_object(text, "answer"));
  ShepherdAnswer answer;
  JsonFields fields(object);
  std::string kind;
  fields.take("answer", kind);
  fields.take("pid", answer.pid);
  fields.take("exitCode", answer.exit_code);
  fields.take("signal", answer.signal);
  fields.take("reason", answer.reason);
  if (kind == kDone) {
    answer.kind = ShepherdAnswer::Kind::kDone;
  } else if (kind == kStarted) {
    answer.kind = ShepherdAnswer::Kind::kStarted;
  } else if (kind == kEnded) {
    answer.kind = ShepherdAnswer::Kind::kEnded;
  } else if (kind == kRefused) {
    answer.kind = ShepherdAnswer::Kind::kRefused;
  } else {
    fields.refuse("answer", "is of a kind that this version does not know");
  }
  DIVVY_RETURN_IF_ERROR(fields.status());
  return answer;
}

}  // namespace divvy::run
