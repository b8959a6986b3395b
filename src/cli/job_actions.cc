// Commands that change jobs: suspend, resume, delete, prune.
#include <CLI/CLI.hpp>
#include <boost/json.hpp>
#include <memory>

#include "cli/command_groups.h"
#include "cli/command_tree.h"
#include "cli/exit_codes.h"
#include "cli/job_help_texts.h"
#include "cli/job_reference.h"
#include "cli/job_view.h"
#include "cli/session.h"

namespace divvy::cli {
namespace {

namespace json = boost::json;

struct ActionArguments {
  std::vector<std::string> jobs;
  bool array = false;
};

// With --array, all tasks of it that have not ended.
tl::expected<std::vector<std::uint64_t>, int> tasks_of(const Session& session, std::uint64_t job) {
  const Asked found =
      ask(session, "GET",
          "/v1/jobs" + write_query({{"array", std::to_string(job)},
                                    {"state", "queued,starting,running,stopping,suspended"},
                                    {"limit", "1000"}}));
  if (!found) return tl::unexpected(found.status());
  std::vector<std::uint64_t> ids;
  for (const Answer& task : found.answer()["items"].items()) {
    ids.push_back(static_cast<std::uint64_t>(task["id"].number().value_or(0)));
  }
  return ids;
}

// One that did not work does not keep the others from being tried; the first trouble is the exit
// status.
int change(const Session& session, const ActionArguments& arguments, const std::string& method,
           const std::string& word) {
  int status = kExitOk;
  const auto note = [&status](int trouble) {
    if (status == kExitOk) status = trouble;
  };
  for (const std::string& typed : arguments.jobs) {
    const auto id = find_job(session, typed, JobMeant::kOnly);
    if (!id) {
      note(id.error());
      continue;
    }
    std::vector<std::uint64_t> ids{*id};
    if (arguments.array) {
      auto tasks = tasks_of(session, *id);
      if (!tasks) {
        note(tasks.error());
        continue;
      }
      ids = *std::move(tasks);
    }
    for (const std::uint64_t job : ids) {
      const std::string path = fmt::format("/v1/jobs/{}{}", job, word.empty() ? "" : "/" + word);
      const Asked done = ask(session, method, path);
      if (!done) {
        note(done.status());
        continue;
      }
      const std::string state = done.answer()["state"].text();
      const bool too_late = method == "DELETE" && is_final_state(state) && state != "cancelled";
      note(session.print(too_late ? fmt::format("job {} has ended already: {}\n", job, state)
                                  : fmt::format("job {} is {}\n", job, state)));
    }
  }
  return status;
}

void add_action(CommandTree& tree, const char* name, const char* summary, const char* footer,
                const std::string& method, const std::string& word) {
  auto arguments = std::make_shared<ActionArguments>();
  CLI::App* command =
      tree.add(heading::kJobs, name, summary, footer, [=](const Session& session) -> Result<int> {
        return change(session, *arguments, method, word);
      });
  command->add_option("JOB", arguments->jobs, "Numbers or names")->required();
  command->add_flag("--array", arguments->array, "All tasks of the array that this job is of");
}

struct PruneArguments {
  std::string older_than = "7d";
  bool everybody = false;
};

Result<int> prune(const Session& session, const PruneArguments& arguments) {
  json::object body{{"older_than", arguments.older_than}};
  if (arguments.everybody) body["everybody"] = true;
  const Asked pruned = ask(session, "POST", "/v1/jobs/prune", json::serialize(body));
  if (!pruned) return pruned.status();
  const std::size_t count = pruned.answer()["jobs"].items().size();
  return session.print(
      fmt::format("forgot {} {} output\n", count, count == 1 ? "job with its" : "jobs with their"));
}

}  // namespace

void add_job_actions(CommandTree& tree) {
  add_action(tree, "suspend", "Take a job from its GPUs, to go on later", kSuspendFooter, "POST",
             "suspend");
  add_action(tree, "resume", "Let a suspended job go on", kResumeFooter, "POST", "resume");
  add_action(tree, "delete", "Cancel jobs", kDeleteFooter, "DELETE", "");
  auto arguments = std::make_shared<PruneArguments>();
  CLI::App* command = tree.add(
      heading::kJobs, "prune", "Forget jobs that ended long ago, with their output", kPruneFooter,
      [arguments](const Session& session) { return prune(session, *arguments); });
  command->add_option("--older-than", arguments->older_than, "Ended longer ago than this (7d)")
      ->type_name("TIME");
  command->add_flag("--everybody", arguments->everybody, "Not only your own; for operators");
}

}  // namespace divvy::cli
