#include "api/routes.h"

#include <algorithm>

#include "api/handlers.h"

namespace divvy::api {
namespace {

using enum Permission;

constexpr std::string_view kJobsQuery =
    "state:states owner:text queue:text name:text array:position since:time before:time "
    "order:<newest,oldest> after:position limit:integer(1..1000)";

// clang-format off
constexpr Route kRoutes[] = {
    {"POST", "/v1/jobs", kKnown, submit_job, "submitJob",
     "Submits a job, or the tasks of an array; 200 for an Idempotency-Key that came before",
     {.query = "dry_run:boolean", .header = "Idempotency-Key", .request = "JobSpec", .status = 201,
      .other_status = 200, .answer = "JobList", .refusals = "404 409"}},
    {"GET", "/v1/jobs", kKnown, list_jobs, "listJobs",
     "A page of jobs", {.query = kJobsQuery, .answer = "JobList"}},
    {"GET", "/v1/jobs/{id}", kSeeJob, get_job, "getJob",
     "One job, with why it waits", {.answer = "Job", .refusals = "404"}},
    {"PATCH", "/v1/jobs/{id}", kChangeJob, change_job, "changeJob",
     "Changes a job that has not ended",
     {.request = "JobChange", .answer = "Job", .refusals = "404 409"}},
    {"DELETE", "/v1/jobs/{id}", kChangeJob, cancel_job, "cancelJob",
     "Cancels a job", {.answer = "Job", .refusals = "404 409"}},
    {"POST", "/v1/jobs/{id}/suspend", kChangeJob, suspend_job, "suspendJob",
     "Stops a job until it is resumed", {.answer = "Job", .refusals = "404 409"}},
    {"POST", "/v1/jobs/{id}/resume", kChangeJob, resume_job, "resumeJob",
     "Lets a suspended job go on", {.answer = "Job", .refusals = "404 409"}},
    {"POST", "/v1/jobs/{id}/requeue", kChangeJob, requeue_job, "requeueJob",
     "Takes a job from its GPUs and queues it again", {.answer = "Job", .refusals = "404 409"}},
    {"GET", "/v1/jobs/{id}/explain", kSeeJob, explain_job, "explainJob",
     "What stands in its way", {.answer = "Explanation", .refusals = "404"}},
    {"GET", "/v1/jobs/{id}/attempts", kLookInsideJob, list_attempts, "listAttempts",
     "Every time that it was started", {.answer = "AttemptList", .refusals = "404"}},
    {"GET", "/v1/jobs/{id}/members", kLookInsideJob, list_members, "listMembers",
     "Where its members are", {.answer = "MemberList", .refusals = "404"}},
    {"GET", "/v1/jobs/{id}/use", kSeeJob, list_use, "listUse",
     "What its members used of the GPUs lately", {.answer = "UseList", .refusals = "404"}},
    {"GET", "/v1/jobs/{id}/logs", kLookInsideJob, read_logs, "readLogs",
     "Its output",
     {.query = "tail:position since:time rank:position attempt:position follow:boolean "
               "timestamps:boolean", .answer = "text/plain", .refusals = "404"}},
    {"POST", "/v1/jobs/{id}/channels", kLookInsideJob, open_channel, "openChannel",
     "Into a member that runs, over any number of connections, one after the other; a name that is "
     "there already is not opened twice",
     {.request = "ChannelRequest", .status = 201, .answer = "Channel",
      .refusals = "404 409 501 504"}},
    {"GET", "/v1/jobs/{id}/channels", kLookInsideJob, join_channel, "joinChannel",
     "Carries a channel: with Upgrade: websocket the connection becomes one end of it",
     {.query = "channel:text rank:position", .status = 101, .answer = "application/octet-stream",
      .refusals = "404 409 426 504"}},
    {"POST", "/v1/jobs/prune", kOwn, prune_jobs, "pruneJobs",
     "Forgets jobs that have ended", {.request = "PruneRequest", .answer = "PruneResult"}},
    {"GET", "/v1/watch", kKnown, watch_events, "watchEvents",
     "What happens, as server-sent events; goes on behind Last-Event-ID",
     {.query = "about:<jobs,machines,all> after:position job:position user:text "
               "limit:integer(1..1000) from:<now>",
      .answer = "text/event-stream"}},
    {"GET", "/v1/whoami", kKnown, who_am_i, "whoAmI",
     "Who is asking", {.answer = "Person"}},
    {"POST", "/v1/session", kKnown, begin_session, "beginSession",
     "Signs a browser in: a cookie, and the key that its requests bring along",
     {.status = 201, .answer = "Session"}},
    {"DELETE", "/v1/session", kKnown, end_session, "endSession",
     "Signs it out", {.answer = "Session"}},
    {"GET", "/v1/people", kAdmin, list_people, "listPeople",
     "Everybody; for admins", {.answer = "PersonList"}},
    {"POST", "/v1/people", kAdmin, add_person, "addPerson",
     "Adds somebody; for admins",
     {.request = "PersonRequest", .status = 201, .answer = "Person", .refusals = "409"}},
    {"PATCH", "/v1/people/{name}", kAdmin, change_person, "changePerson",
     "Role, uid, disabled; for admins",
     {.request = "PersonRequest", .answer = "Person", .refusals = "404 409"}},
    {"DELETE", "/v1/people/{name}", kAdmin, remove_person, "removePerson",
     "Their tokens go along; for admins", {.answer = "Person", .refusals = "404 409"}},
    {"GET", "/v1/tokens", kOwn, list_tokens, "listTokens",
     "One's own tokens; of everybody for admins",
     {.query = "everybody:boolean", .answer = "TokenList"}},
    {"POST", "/v1/tokens", kOwn, add_token, "addToken",
     "Makes a token and shows it once",
     {.request = "TokenRequest", .status = 201, .answer = "Token", .refusals = "404 409"}},
    {"DELETE", "/v1/tokens/{id}", kOwn, revoke_token, "revokeToken",
     "Revokes a token", {.answer = "Token", .refusals = "404"}},
    {"GET", "/v1/queues", kKnown, list_queues, "listQueues",
     "Queues, what they are promised and hold", {.answer = "QueueList"}},
    {"PUT", "/v1/queues/{path}", kAdmin, put_queue, "putQueue",
     "Sets a queue; for admins",
     {.request = "QueueRequest", .answer = "QueueRequest", .refusals = "404 409"}},
    {"DELETE", "/v1/queues/{path}", kAdmin, remove_queue, "removeQueue",
     "Back to the configuration; for admins", {.answer = "Removed", .refusals = "404 409"}},
    {"GET", "/v1/quotas", kKnown, list_quotas, "listQuotas",
     "What users may have and hold", {.answer = "QuotaList"}},
    {"PUT", "/v1/quotas/{user}", kAdmin, put_quota, "putQuota",
     "Sets what a user may have; for admins",
     {.request = "QuotaRequest", .answer = "QuotaRequest", .refusals = "404 409"}},
    {"DELETE", "/v1/quotas/{user}", kAdmin, remove_quota, "removeQuota",
     "Back to the configuration; for admins", {.answer = "Removed", .refusals = "404 409"}},
    {"GET", "/v1/usage", kOwn, report_usage, "reportUsage",
     "What was held and used; of others for admins. format=csv gives a table",
     {.query = "by:<user,queue,job,hour> since:time before:time user:text queue:text job:position "
               "format:<json,csv>", .answer = "UsageReport", .other_answer = "text/csv"}},
    {"GET", "/v1/audit", kOwn, list_audit, "listAudit",
     "Who asked for what that changes something, and what became of it; of others for admins. "
     "format=csv gives a table",
     {.query = "user:text action:text since:time before:time order:<newest,oldest> after:position "
               "limit:integer(1..1000) format:<json,csv>", .answer = "AuditLog",
      .other_answer = "text/csv"}},
    {"GET", "/v1/settings", kAdmin, list_settings, "listSettings",
     "Every setting of the configuration, as it is in force; for admins",
     {.answer = "SettingList"}},
    {"POST", "/v1/what-if", kKnown, what_if, "whatIf",
     "What would become of those who wait, as things are and with other GPUs or rules; changes nothing",
     {.request = "WhatIfRequest", .may_be_empty = true, .answer = "WhatIf",
      .refusals = "404 409 501"}, From::kAnywhere, true},
    {"GET", "/v1/schedules", kKnown, list_schedules, "listSchedules",
     "Jobs that are submitted at times that come again; of others for admins",
     {.answer = "ScheduleList", .refusals = "501"}},
    {"POST", "/v1/schedules", kKnown, make_schedule, "makeSchedule",
     "Has a job submitted at times that come again",
     {.request = "ScheduleRequest", .status = 201, .answer = "Schedule", .refusals = "404 409 501"}},
    {"GET", "/v1/schedules/{name}", kOwn, get_schedule, "getSchedule",
     "One schedule; of others for admins", {.answer = "Schedule", .refusals = "404 501"}},
    {"PATCH", "/v1/schedules/{name}", kOwn, change_schedule, "changeSchedule",
     "Changes its times, or suspends it; of others for admins",
     {.request = "ScheduleChange", .answer = "Schedule", .refusals = "404 409 501"}},
    {"DELETE", "/v1/schedules/{name}", kOwn, delete_schedule, "deleteSchedule",
     "Forgets it; jobs that it submitted go on; of others for admins",
     {.answer = "Schedule", .refusals = "404 501"}},
    {"GET", "/v1/services", kKnown, list_services, "listServices",
     "Services and how they stand", {.answer = "ServiceList", .refusals = "501"}},
    {"POST", "/v1/services", kKnown, make_service, "makeService",
     "Makes a service: replicas that are kept running behind one port",
     {.request = "ServiceRequest", .status = 201, .answer = "Service", .refusals = "404 409 501"}},
    {"GET", "/v1/services/{name}", kKnown, get_service, "getService",
     "One service", {.answer = "Service", .refusals = "404 501"}},
    {"PATCH", "/v1/services/{name}", kOwn, change_service, "changeService",
     "Changes how many replicas it has, or how it is looked at; of others for admins",
     {.request = "ServiceChange", .answer = "Service", .refusals = "404 409 501"}},
    {"POST", "/v1/services/{name}/versions", kOwn, update_service, "updateService",
     "A new version, for all requests or some of them; of others for admins",
     {.request = "VersionRequest", .status = 201, .answer = "Service", .refusals = "404 409 501"}},
    {"POST", "/v1/services/{name}/promote", kOwn, promote_service, "promoteService",
     "Gives the new version more of the requests, or all; of others for admins",
     {.request = "PromotionRequest", .may_be_empty = true, .answer = "Service",
      .refusals = "404 409 501"}},
    {"POST", "/v1/services/{name}/rollback", kOwn, roll_back_service, "rollBackService",
     "Takes the new version back, or goes to an earlier one; of others for admins",
     {.request = "RollbackRequest", .may_be_empty = true, .answer = "Service",
      .refusals = "404 409 501"}},
    {"DELETE", "/v1/services/{name}", kOwn, delete_service, "deleteService",
     "Ends a service: no new requests, then its replicas; of others for admins",
     {.answer = "Service", .refusals = "404 409 501"}},
    {"POST", "/v1/backup", kDaemonUser, make_backup, "makeBackup",
     "Writes a backup of the database; for admins",
     {.request = "BackupRequest", .answer = "Backup", .refusals = "404 409"}},
    {"GET", "/v1/node", kKnown, get_node, "getNode",
     "The machine and what is free on it", {.answer = "object"}},
    {"GET", "/v1/stats", kKnown, get_stats, "getStats",
     "GPUs and tenants in one answer", {.answer = "object"}},
    {"GET", "/v1/tenants", kKnown, list_tenants, "listTenants",
     "Everybody who holds slices", {.answer = "object"}},
    {"POST", "/v1/tenants", kKnown, grant_slices, "grantSlices",
     "Slices for the calling process",
     {.request = "GrantRequest", .status = 201, .answer = "object", .refusals = "404 409 501 504"},
      From::kSocket},
    {"GET", "/v1/tenants/{id}", kKnown, get_tenant, "getTenant",
     "One, by number or name", {.answer = "object", .refusals = "404"}},
    {"PATCH", "/v1/tenants/{id}", kMachineUser, change_tenant, "changeTenant",
     "Share, memory, cap or class while it runs",
     {.request = "ChangeRequest", .answer = "object", .refusals = "404 409 501"}},
    {"DELETE", "/v1/tenants/{id}", kMachineUser, release_tenant, "releaseTenant",
     "Takes its slices back", {.answer = "object", .refusals = "404 409"}},
    {"GET", "/v1/slices", kKnown, list_slices, "listSlices",
     "Slices that are held by a name", {.answer = "object"}},
    {"POST", "/v1/slices", kMachineUser, hold_slice, "holdSlice",
     "Holds slices for containers",
     {.request = "GrantRequest", .status = 201, .answer = "object", .refusals = "404 409 501"}},
    {"GET", "/v1/slices/{name}", kKnown, get_slice, "getSlice",
     "One of them", {.answer = "object", .refusals = "404"}},
    {"DELETE", "/v1/slices/{name}", kMachineUser, release_slice, "releaseSlice",
     "Releases it", {.answer = "object", .refusals = "404 409"}},
    {"GET", "/v1/gpus", kKnown, list_gpus, "listGpus",
     "Every GPU and its health", {.answer = "object"}},
    {"POST", "/v1/gpus/{gpu}/cordon", kAdmin, cordon_gpu, "cordonGpu",
     "No new work for it",
     {.request = "CordonRequest", .may_be_empty = true, .answer = "object",
      .refusals = "404 409"}},
    {"POST", "/v1/gpus/{gpu}/drain", kAdmin, drain_gpu, "drainGpu",
     "And the present work is to end",
     {.request = "CordonRequest", .may_be_empty = true, .answer = "object",
      .refusals = "404 409"}},
    {"POST", "/v1/gpus/{gpu}/uncordon", kAdmin, uncordon_gpu, "uncordonGpu",
     "Work again",
     {.request = "CordonRequest", .may_be_empty = true, .answer = "object",
      .refusals = "404 409"}},
    {"GET", "/v1/events", kKnown, list_gpu_events, "listGpuEvents",
     "What happened to GPUs",
     {.query = "since:position wait:integer(0..3600)", .answer = "object"}},
    {"GET", "/v1/openapi.json", kAnyone, get_openapi, "getOpenApi",
     "This document", {.answer = "object"}}};
// clang-format on

// What no row may get wrong: the parameter in its path is what its handler takes, a job is loaded
// for exactly the permissions that are about one, and only what strangers may ask for does without
// a Call.
constexpr bool is_sound(const Route& route) {
  const Permission needed = route.needs.permission;
  const bool parameter = route.path.find('{') != std::string_view::npos;
  const bool about_job = needed == kSeeJob || needed == kLookInsideJob || needed == kChangeJob;
  const bool takes_job = std::holds_alternative<JobHandler>(route.handler);
  const bool open = std::holds_alternative<OpenHandler>(route.handler);
  const bool plain = std::holds_alternative<PlainHandler>(route.handler);
  return std::visit([](auto handler) { return handler != nullptr; }, route.handler) &&
         parameter == !(open || plain) && about_job == takes_job && open == (needed == kAnyone);
}
static_assert(std::ranges::all_of(kRoutes, is_sound));

}  // namespace

std::span<const Route> routes() { return kRoutes; }

}  // namespace divvy::api
