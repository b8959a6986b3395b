#include "api/api.h"

#include <boost/json.hpp>
#include <charconv>
#include <limits>

#include "api/answers.h"
#include "api/audit_log.h"
#include "api/handlers.h"
#include "base/text.h"

namespace divvy::api {
namespace {

Result<model::JobId> parse_job_id(std::string_view text) {
  std::uint64_t number = 0;
  const auto read = std::from_chars(text.begin(), text.end(), number);
  if (read.ec == std::errc() && read.ptr == text.end() && number > 0 &&
      number <= std::numeric_limits<std::int64_t>::max()) {
    return model::JobId(number);
  }
  return err(ErrorCode::kInvalidArgument, "\"{}\" is no number of a job; write one like 17",
             escape_for_terminal(text.substr(0, 40)));
}

agent::LocalCaller acting(const model::Person& who, const net::Caller& caller) {
  if (caller.local() && caller.uid() == who.uid) return {caller.pid(), caller.uid(), caller.gid()};
  if (who.role == model::Role::kAdmin) return {};
  const uid_t uid = who.uid.value_or(net::Caller::kNobody);
  return {0, uid, uid};
}

}  // namespace

Call::Call(const Parts& parts_given, const net::HttpRequest& sent, const net::Caller& sender,
           const model::Person& person)
    : parts(parts_given), request(sent), caller(sender), who(person), as(acting(person, sender)) {}

net::HttpResponse Api::handle(const net::HttpRequest& request, const net::Caller& caller) const {
  const auto target = resolve_target(request, table_);
  if (!target) return target.error();
  Answer answered;
  if (const auto* const open = std::get_if<OpenHandler>(&target->route->handler)) {
    answered = (*open)();
  } else if (const auto* const stranger = std::get_if<StrangerHandler>(&target->route->handler)) {
    answered = (*stranger)({parts_, request, caller});
  } else {
    const auto who = parts_.people.identify(request, caller);
    if (!who) return People::refusal(who.error());
    const auto entry = AuditEntry::begin(parts_, *target->route, request, caller, *who);
    answered = permit_and_call(*target, request, caller, who->person);
    if (entry) entry->finish(answered);
  }
  return answered ? *std::move(answered) : problem(answered.error());
}

Answer Api::permit_and_call(const Target& target, const net::HttpRequest& request,
                            const net::Caller& caller, const model::Person& who) const {
  const Route& route = *target.route;
  if (route.from == From::kSocket && !caller.local()) {
    return err(ErrorCode::kUnsupported,
               "slices for a process are for those on the machine; over the network submit a job");
  }
  const Call call(parts_, request, caller, who);
  if (const auto* const of_job = std::get_if<JobHandler>(&route.handler)) {
    DIVVY_TRY(id, parse_job_id(target.parameter));
    DIVVY_TRY(job, find_job(parts_, id));
    DIVVY_RETURN_IF_ERROR(may(who, route.needs.permission, &job));
    return (*of_job)(call, job);
  }
  DIVVY_RETURN_IF_ERROR(may(who, route.needs.permission));
  if (const auto* const of_name = std::get_if<NameHandler>(&route.handler)) {
    return (*of_name)(call, target.parameter);
  }
  if (const auto* const of_queue = std::get_if<QueueHandler>(&route.handler)) {
    return (*of_queue)(call, QueuePath{target.parameter});
  }
  return std::get<PlainHandler>(route.handler)(call);
}

}  // namespace divvy::api
