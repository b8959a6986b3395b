#include "api/slice_requests.h"

#include <boost/json.hpp>

#include "agent/waiting.h"
#include "api/answers.h"

namespace divvy::api {
namespace {

namespace json = boost::json;
using net::HttpResponse;

constexpr std::chrono::seconds kPatience{10};

std::optional<json::object> object_in(const std::string& text) {
  boost::system::error_code code;
  json::value value = json::parse(text, code);
  if (code || !value.is_object()) return std::nullopt;
  return std::move(value).as_object();
}

std::optional<json::object> why_not(agent::Agent& here, const model::JobSpec& spec) {
  const auto document = agent::ask_and_wait(here, agent::WhyNotOrder(spec), kPatience);
  return document ? object_in(document->json) : std::nullopt;
}

HttpResponse never(agent::Agent& here, const GrantRequest& wanted, const Error& why) {
  const bool about_size =
      why.code == ErrorCode::kOutOfRange || why.code == ErrorCode::kInvalidArgument;
  if (!about_size) return problem(why);
  const auto found = why_not(here, wanted.spec);
  // The machine could, but a quota or a limit of the queue does not let it.
  if (!found || found->at("ever").as_bool()) return problem(why);
  return problem(*found);
}

HttpResponse not_now(agent::Agent& here, const GrantRequest& wanted, const jobs::WaitReport& why) {
  auto found = why_not(here, wanted.spec);
  if (!found) return problem(Error{ErrorCode::kResourceExhausted, why.text});
  (*found)["ever"] = true;
  (*found)["status"] = 409;
  (*found)["title"] = "does not fit now";
  if (why.kind != jobs::WaitKind::kFull && why.kind != jobs::WaitKind::kNever) {
    // The GPUs are not what it waits for.
    (*found)["detail"] = why.text;
    (*found)["advice"] = fmt::format(
        "{}, or ask for less; `divvy queue list` shows who holds what.",
        wanted.spec.holder == model::Holder::kProcess ? "Wait for it (--wait)" : "Try again later");
    (*found)["gpus"] = json::array();
  }
  return problem(*found);
}

}  // namespace

tl::expected<GrantedSlices, HttpResponse> ask_for_slices(const Call& call, GrantRequest wanted,
                                                         const agent::LocalCaller& as) {
  control::Dispatcher& dispatcher = call.parts.dispatcher;
  agent::Agent& here = call.parts.agents.here();
  const auto refuse = [](const Error& error) { return tl::unexpected(problem(error)); };
  // Devices are named as people do; one that is not there is their mistake. Names are known before
  // it waits; what is taken meanwhile is refused then.
  // Who names nothing need not wait for the machine's answer.
  if (!wanted.spec.name.empty() || !wanted.spec.devices.empty()) {
    const auto allowed = agent::ask_and_wait(
        here, agent::CheckHolderOrder{wanted.spec.name, wanted.spec.devices}, kPatience);
    if (!allowed) return refuse(allowed.error());
  }
  control::NewJob job(wanted.spec);
  job.owner = call.who.name;
  const auto admission = dispatcher.admit(std::move(job), as, wanted.wait);
  if (!admission) return tl::unexpected(never(here, wanted, admission.error()));
  const std::chrono::milliseconds patience = wanted.wait && wanted.timeout_seconds
                                                 ? std::chrono::seconds(*wanted.timeout_seconds)
                                                 : std::chrono::milliseconds(-1);
  switch (call.caller.wait_for((*admission)->ready(), patience)) {
    case net::Caller::Wait::kReady:
      break;
    case net::Caller::Wait::kGone:
      dispatcher.give_up(*admission);
      return refuse({ErrorCode::kCancelled, "the caller is gone"});
    case net::Caller::Wait::kTimeout:
      dispatcher.give_up(*admission);
      return refuse({ErrorCode::kTimeout, fmt::format("{} s were not enough: it still does not fit",
                                                      *wanted.timeout_seconds)});
  }
  auto answer = dispatcher.answer(*admission);
  if (!answer) return refuse({ErrorCode::kInternal, "woken without an answer"});
  if (!*answer && answer->error().code == ErrorCode::kResourceExhausted) {
    jobs::WaitReport quicker;
    quicker.kind = jobs::WaitKind::kFull;
    return tl::unexpected(not_now(here, wanted, quicker));
  }
  if (!*answer) return refuse(answer->error());
  if (const auto* not_yet = std::get_if<control::NotNow>(&**answer)) {
    return tl::unexpected(not_now(here, wanted, not_yet->why));
  }
  auto& admitted = std::get<control::Admitted>(**answer);
  auto document = object_in(admitted.slice.document);
  if (!document) return refuse({ErrorCode::kInternal, "the machine's answer is no JSON"});
  return GrantedSlices{
      *std::move(document), std::move(admitted.slice.environment),
      admitted.slice.cdi_devices.empty() ? std::string() : admitted.slice.cdi_devices.front(),
      admitted.job};
}

}  // namespace divvy::api
