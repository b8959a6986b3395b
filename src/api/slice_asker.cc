#include "api/slice_asker.h"

#include <boost/json.hpp>

#include "api/answers.h"
#include "api/documents.h"

namespace divvy::api {

using net::HttpResponse;

tl::expected<SliceAsker::Granted, HttpResponse> SliceAsker::ask(GrantRequest wanted,
                                                                const net::HttpRequest& request,
                                                                const net::Caller& caller) const {
  const auto refuse = [](const Error& error) { return tl::unexpected(problem(error)); };
  const auto who = people_.identify(request, caller);
  if (!who) return tl::unexpected(People::refusal(who.error()));
  // Devices are named as people do; one that is not there is their mistake.
  for (const std::string& device : wanted.spec.devices) {
    if (const auto known = tenants_.slices().find_by_text(device); !known) {
      return refuse(known.error());
    }
  }
  // Known before it waits; what is taken meanwhile is refused then.
  if (const Status free = tenants_.check_new_name(wanted.spec.name); !free) {
    return refuse(free.error());
  }
  dispatch::NewJob job(wanted.spec);
  job.owner = who->name;
  const auto admission = dispatcher_.admit(
      std::move(job), {.uid = caller.uid(), .gid = caller.gid(), .pid = caller.pid()}, wanted.wait);
  if (!admission) return tl::unexpected(never(wanted, admission.error()));
  const std::chrono::milliseconds patience = wanted.wait && wanted.timeout_seconds
                                                 ? std::chrono::seconds(*wanted.timeout_seconds)
                                                 : std::chrono::milliseconds(-1);
  switch (caller.wait_for((*admission)->ready(), patience)) {
    case net::Caller::Wait::kReady:
      break;
    case net::Caller::Wait::kGone:
      dispatcher_.give_up(*admission);
      return refuse({ErrorCode::kCancelled, "the caller is gone"});
    case net::Caller::Wait::kTimeout:
      dispatcher_.give_up(*admission);
      return refuse({ErrorCode::kTimeout, fmt::format("{} s were not enough: it still does not fit",
                                                      *wanted.timeout_seconds)});
  }
  auto answer = dispatcher_.answer(*admission);
  if (!answer) return refuse({ErrorCode::kInternal, "woken without an answer"});
  if (!*answer && answer->error().code == ErrorCode::kResourceExhausted) {
    jobs::WaitReport quicker;
    quicker.kind = jobs::WaitKind::kFull;
    return tl::unexpected(not_now(wanted, quicker));
  }
  if (!*answer) return refuse(answer->error());
  if (const auto* not_yet = std::get_if<dispatch::NotNow>(&**answer)) {
    return tl::unexpected(not_now(wanted, not_yet->why));
  }
  auto& admitted = std::get<dispatch::Admitted>(**answer);
  auto view = tenants_.get(admitted.slice.tenant);
  if (!view) return refuse({ErrorCode::kCancelled, "the process that asked has ended"});
  return Granted{
      {std::move(view->record), std::move(view->gpus), std::move(admitted.slice.environment)},
      admitted.job};
}

std::optional<node::Want> SliceAsker::want(const GrantRequest& wanted) const {
  node::Want want{wanted.spec.request, {}, wanted.spec.mode.value_or(model::GpuMode::kTimeslice)};
  const node::Slices slices = tenants_.slices();
  for (const std::string& device : wanted.spec.devices) {
    auto uuid = slices.find_by_text(device);
    if (!uuid) return std::nullopt;
    want.only.push_back(*std::move(uuid));
  }
  return want;
}

HttpResponse SliceAsker::never(const GrantRequest& wanted, const Error& why) const {
  const auto asked = want(wanted);
  const auto answer = asked ? std::optional(tenants_.slices().why_not(*asked)) : std::nullopt;
  const bool about_size =
      why.code == ErrorCode::kOutOfRange || why.code == ErrorCode::kInvalidArgument;
  // The machine could, but a quota or a limit of the queue does not let it.
  if (!about_size || !answer || answer->ever) return problem(why);
  return problem(no_fit_document(*answer, tenants_.list()));
}

HttpResponse SliceAsker::not_now(const GrantRequest& wanted, const jobs::WaitReport& why) const {
  const auto asked = want(wanted);
  if (!asked) return problem(Error{ErrorCode::kResourceExhausted, why.text});
  node::NoFit answer = tenants_.slices().why_not(*asked);
  answer.ever = true;
  if (why.kind != jobs::WaitKind::kFull && why.kind != jobs::WaitKind::kNever) {
    // The GPUs are not what it waits for.
    answer.summary = why.text;
    answer.advice = "Wait for it (--wait), or ask for less; `divvy queue` shows who holds what.";
    answer.obstacles.clear();
  }
  return problem(no_fit_document(answer, tenants_.list()));
}

}  // namespace divvy::api
