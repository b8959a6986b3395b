// Jobs that are submitted at times that come again. Each is its owner's and the admins' alone.
#include <boost/json.hpp>

#include "api/answers.h"
#include "api/handlers.h"
#include "control/schedules.h"
#include "model/job_document.h"

namespace divvy::api {
namespace {

namespace json = boost::json;
using control::Schedule;

Result<control::Schedules*> schedules_of(const Call& call) {
  if (call.parts.schedules != nullptr) return call.parts.schedules;
  return err(ErrorCode::kUnsupported, "this daemon keeps no schedules");
}

bool is_own(const Call& call, const Schedule& schedule) {
  return call.who.name == schedule.owner || may(call.who, Permission::kAdmin).has_value();
}

Status check_own(const Call& call, const Schedule& schedule) {
  if (is_own(call, schedule)) return {};
  return err(ErrorCode::kPermissionDenied,
             "the schedule {} is {}'s; only they and admins see and change it", schedule.name,
             schedule.owner);
}

json::value milliseconds_or_null(const std::optional<WallTime>& time) {
  if (!time) return nullptr;
  return std::chrono::duration_cast<std::chrono::milliseconds>(time->time_since_epoch()).count();
}

json::object schedule_document(const Schedule& schedule) {
  return {{"name", schedule.name},
          {"owner", schedule.owner},
          {"every", schedule.every.text()},
          {"missed", control::to_string(schedule.missed)},
          {"overlap", control::to_string(schedule.overlap)},
          {"suspended", schedule.suspended},
          {"trouble", schedule.trouble},
          {"madeUnixMilliseconds", milliseconds_or_null(schedule.made)},
          {"nextUnixMilliseconds",
           schedule.suspended ? json::value(nullptr) : milliseconds_or_null(schedule.next)},
          {"lastUnixMilliseconds", milliseconds_or_null(schedule.last_at)},
          {"lastJob", schedule.last_job ? json::value(schedule.last_job->value()) : json::value()},
          {"spec", json::parse(model::write_job_spec(schedule.job))}};
}

net::HttpResponse answer_with(const Schedule& schedule) {
  return answer(200, headed("Schedule", schedule_document(schedule)));
}

}  // namespace

Answer list_schedules(const Call& call) {
  DIVVY_TRY(schedules, schedules_of(call));
  DIVVY_TRY(all, schedules->list());
  json::array items;
  for (const Schedule& schedule : all) {
    if (is_own(call, schedule)) items.push_back(schedule_document(schedule));
  }
  return answer(200, listed("ScheduleList", std::move(items)));
}

Answer make_schedule(const Call& call) {
  DIVVY_TRY(schedules, schedules_of(call));
  DIVVY_TRY(wanted, control::read_new_schedule(call.request.body));
  DIVVY_TRY(made, schedules->make(std::move(wanted), call.who.name));
  return created("/v1/schedules/" + made.name, headed("Schedule", schedule_document(made)));
}

Answer get_schedule(const Call& call, const std::string& name) {
  DIVVY_TRY(schedules, schedules_of(call));
  DIVVY_TRY(schedule, schedules->find(name));
  DIVVY_RETURN_IF_ERROR(check_own(call, schedule));
  return answer_with(schedule);
}

Answer change_schedule(const Call& call, const std::string& name) {
  DIVVY_TRY(schedules, schedules_of(call));
  DIVVY_TRY(changed, schedules->change(name, [&](Schedule& schedule, WallTime now) -> Status {
    DIVVY_RETURN_IF_ERROR(check_own(call, schedule));
    return control::change_schedule(schedule, call.request.body, now);
  }));
  return answer_with(changed);
}

Answer delete_schedule(const Call& call, const std::string& name) {
  DIVVY_TRY(schedules, schedules_of(call));
  DIVVY_TRY(removed, schedules->remove(name, [&](const Schedule& schedule) {
    return check_own(call, schedule);
  }));
  return answer_with(removed);
}

}  // namespace divvy::api
