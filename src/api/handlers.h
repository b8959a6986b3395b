// What answers the requests of the API: one function for each row of the table of routes
// (routes.cc), called by Api behind the permission step. What stands in the path comes parsed; a
// job comes loaded. Callable from many threads at once.
#pragma once

#include <string>

#include "api/call.h"

namespace divvy::api {

// --- Jobs (job_handlers.cc) ---
Answer submit_job(const Call& call);
Answer list_jobs(const Call& call);
Answer get_job(const Call& call, const model::Job& job);
Answer change_job(const Call& call, const model::Job& job);
Answer cancel_job(const Call& call, const model::Job& job);
Answer suspend_job(const Call& call, const model::Job& job);
Answer resume_job(const Call& call, const model::Job& job);
Answer requeue_job(const Call& call, const model::Job& job);
Answer explain_job(const Call& call, const model::Job& job);
Answer list_attempts(const Call& call, const model::Job& job);
Answer list_members(const Call& call, const model::Job& job);
Answer list_use(const Call& call, const model::Job& job);
Answer prune_jobs(const Call& call);
// As it is now, or as it was when it ended.
[[nodiscard]] Result<model::Job> find_job(const Parts& parts, model::JobId id);
// Divvy started its members: there are output and a way into them.
[[nodiscard]] Status check_has_members(const model::Job& job);

// --- Into members and out of them (job_streams.cc) ---
Answer read_logs(const Call& call, const model::Job& job);
Answer open_channel(const Call& call, const model::Job& job);
Answer join_channel(const Call& call, const model::Job& job);

// --- What happens (event_handlers.cc) ---
Answer watch_events(const Call& call);
Answer list_gpu_events(const Call& call);

// --- People and their tokens (people_handlers.cc) ---
Answer who_am_i(const Call& call);
Answer list_people(const Call& call);
Answer add_person(const Call& call);
Answer change_person(const Call& call, const std::string& name);
Answer remove_person(const Call& call, const std::string& name);
Answer list_tokens(const Call& call);
Answer add_token(const Call& call);
Answer revoke_token(const Call& call, const std::string& id);

// --- Sessions of browsers (session.cc) ---
Answer begin_session(const Call& call);
Answer end_session(const Call& call);

// --- Signing in with a provider of OpenID Connect (sign_in_handlers.cc) ---
Answer offer_sign_in(const StrangerCall& call);
Answer begin_browser_sign_in(const StrangerCall& call);
Answer finish_browser_sign_in(const StrangerCall& call);
Answer begin_device_sign_in(const StrangerCall& call);
Answer finish_device_sign_in(const StrangerCall& call);

// --- Queues, what users may have, what was used, the store (queue_handlers.cc) ---
Answer list_queues(const Call& call);
Answer put_queue(const Call& call, const QueuePath& path);
Answer remove_queue(const Call& call, const QueuePath& path);
Answer list_quotas(const Call& call);
Answer put_quota(const Call& call, const std::string& user);
Answer remove_quota(const Call& call, const std::string& user);
Answer report_usage(const Call& call);
Answer make_backup(const Call& call);
// The dispatcher gets what the configuration has, with what was set later over it. Again after a
// reload.
[[nodiscard]] Status apply_settings(const Parts& parts);

// --- Services (service_handlers.cc) ---
Answer list_services(const Call& call);
Answer make_service(const Call& call);
Answer get_service(const Call& call, const std::string& name);
Answer change_service(const Call& call, const std::string& name);
Answer update_service(const Call& call, const std::string& name);
Answer promote_service(const Call& call, const std::string& name);
Answer roll_back_service(const Call& call, const std::string& name);
Answer delete_service(const Call& call, const std::string& name);

// --- The audit log (audit_handlers.cc) ---
Answer list_audit(const Call& call);

// --- Secrets (secret_handlers.cc) ---
Answer list_secrets(const Call& call);
Answer put_secret(const Call& call, const std::string& name);
Answer delete_secret(const Call& call, const std::string& name);

// --- Schedules (schedule_handlers.cc) ---
Answer list_schedules(const Call& call);
Answer make_schedule(const Call& call);
Answer get_schedule(const Call& call, const std::string& name);
Answer change_schedule(const Call& call, const std::string& name);
Answer delete_schedule(const Call& call, const std::string& name);

// --- Machines: their GPUs, who holds slices (machine_handlers.cc) ---
Answer get_node(const Call& call);
Answer get_stats(const Call& call);
Answer list_tenants(const Call& call);
Answer get_tenant(const Call& call, const std::string& tenant);
Answer grant_slices(const Call& call);
Answer change_tenant(const Call& call, const std::string& tenant);
Answer release_tenant(const Call& call, const std::string& tenant);
Answer list_slices(const Call& call);
Answer get_slice(const Call& call, const std::string& name);
Answer hold_slice(const Call& call);
Answer release_slice(const Call& call, const std::string& name);
Answer list_gpus(const Call& call);
Answer cordon_gpu(const Call& call, const std::string& gpu);
Answer drain_gpu(const Call& call, const std::string& gpu);
Answer uncordon_gpu(const Call& call, const std::string& gpu);

// --- What would become of the queue (what_if_handlers.cc) ---
Answer what_if(const Call& call);

// --- How the daemon is set up (settings_handlers.cc) ---
Answer list_settings(const Call& call);

// --- This API (openapi.cc) ---
Answer get_openapi();

}  // namespace divvy::api
