#include "cli/submit_document.h"

#include <boost/json.hpp>
#include <filesystem>

#include "cli/server_contexts.h"
#include "cli/session.h"
#include "model/job_document.h"

namespace divvy::cli {

namespace json = boost::json;

Status complete_document(const Session& session, const Daemon& daemon, const ClientConfig& config,
                         json::object& document) {
  // By memory alone it is that memory, and as much of the GPU as that is of its memory.
  if (!document.contains("gpu") && !document.contains("gpu_memory")) document["gpu"] = "1";
  if (!document.contains("queue") && !config.queue.empty()) document["queue"] = config.queue;
  const bool contained = document.contains("container") && !document["container"].is_null();
  if (!document.contains("working_directory") && !contained) {
    std::error_code code;
    const auto here = std::filesystem::current_path(code);
    if (!code) document["working_directory"] = here.string();
  }
  // What works when it is typed works as a job; on another machine programs lie elsewhere.
  const auto path = daemon.is_remote() ? std::nullopt : session.terminal.environment("PATH");
  if (path && !contained) {
    json::value& variables = document["environment"];
    if (variables.is_null()) variables = json::object();
    if (variables.is_object()) variables.as_object().emplace("PATH", *path);
  }
  DIVVY_TRY(spec, model::read_job_spec(json::serialize(document)));
  return model::check(spec);
}

Status have_daemon(const Session& session, const Daemon& daemon) {
  if (daemon.is_remote()) return {};
  DIVVY_TRY(started, daemon.start_where_none_runs());
  if (started) {
    session.say("started divvyd in the background (its socket is " +
                daemon.options().socket.string() + ")");
  }
  return {};
}

}  // namespace divvy::cli
