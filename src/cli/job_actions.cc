// Commands that change jobs: suspend, resume, requeue, update, delete, prune.
#include <CLI/CLI.hpp>
#include <boost/json.hpp>
#include <functional>
#include <memory>
#include <optional>

#include "cli/command_groups.h"
#include "cli/command_tree.h"
#include "cli/exit_codes.h"
#include "cli/job_help_texts.h"
#include "cli/job_reference.h"
#include "cli/job_view.h"
#include "cli/label_selector.h"
#include "cli/session.h"

namespace divvy::cli {
namespace {

namespace json = boost::json;

constexpr const char* kUnfinished = "queued,starting,running,stopping,suspended";

// Which jobs are meant.
struct ActionArguments {
  std::vector<std::string> jobs;
  std::vector<std::string> labels;
  bool array = false;
};

// What is done to each of them.
struct Request {
  std::string method;
  std::string word{};  // behind the job in the path
  std::string body{};
};

// Of the jobs that have not ended and that the query asks for, however many, those that are meant.
tl::expected<std::vector<std::uint64_t>, int> unfinished_jobs(
    const Session& session, const QueryParts& query,
    const std::function<bool(const Answer&)>& is_meant) {
  std::vector<std::uint64_t> ids;
  for (std::string after;;) {
    QueryParts parts = query;
    parts.insert(parts.end(), {{"state", kUnfinished}, {"after", after}, {"limit", "1000"}});
    const Asked page = ask(session, "GET", "/v1/jobs" + write_query(parts));
    if (!page) return tl::unexpected(page.status());
    for (const Answer& job : page.answer()["items"].items()) {
      if (!is_meant(job)) continue;
      ids.push_back(static_cast<std::uint64_t>(job["id"].number().value_or(0)));
    }
    after = page.answer()["next"].text();
    if (after.empty()) return ids;
  }
}

// With --array, all tasks of its array that have not ended.
tl::expected<std::vector<std::uint64_t>, int> tasks_of(const Session& session, std::uint64_t job) {
  const Asked one = ask(session, "GET", fmt::format("/v1/jobs/{}", job));
  if (!one) return tl::unexpected(one.status());
  const std::string array = one.answer()["array"].text();
  if (array.empty()) {
    session.say(fmt::format("job {} is no task of an array; leave --array out", job));
    return tl::unexpected(kExitUsage);
  }
  return unfinished_jobs(session, {{"array", array}}, [](const Answer&) { return true; });
}

// Of one's own jobs that have not ended, those with the labels: whoever may change the jobs of
// others names them one by one.
tl::expected<std::vector<std::uint64_t>, int> jobs_with(const Session& session,
                                                        const LabelSelector& selector) {
  const Asked me = ask(session, "GET", "/v1/whoami");
  if (!me) return tl::unexpected(me.status());
  return unfinished_jobs(session, {{"owner", me.answer()["name"].raw()}},
                         [&](const Answer& job) { return selector.matches(job); });
}

int change_one(const Session& session, std::uint64_t job, const Request& request) {
  const std::string path =
      fmt::format("/v1/jobs/{}{}", job, request.word.empty() ? "" : "/" + request.word);
  const Asked done = ask(session, request.method, path, request.body);
  if (!done) return done.status();
  const std::string state = done.answer()["state"].text();
  const bool too_late = request.method == "DELETE" && is_final_state(state) && state != "cancelled";
  if (too_late) return session.print(fmt::format("job {} has ended already: {}\n", job, state));
  if (request.method != "PATCH") return session.print(fmt::format("job {} is {}\n", job, state));
  // Its history says what is other than before.
  const auto steps = done.answer()["history"].items();
  return session.print(fmt::format("job {} is {}: {}\n", job, state,
                                   steps.empty() ? "changed" : steps.back()["reason"].text()));
}

// One that did not work does not keep the others from being tried; the first trouble is the exit
// status.
Result<int> change(const Session& session, const ActionArguments& arguments,
                   const Request& request) {
  DIVVY_TRY(selector, LabelSelector::parse(arguments.labels));
  if (arguments.jobs.empty() == selector.empty()) {
    return err(ErrorCode::kInvalidArgument,
               "name jobs, or choose them by a label: {0} 17, {0} -l sweep=7",
               full_name(session.command));
  }
  int status = kExitOk;
  const auto note = [&status](int trouble) {
    if (status == kExitOk) status = trouble;
  };
  for (const std::string& typed : arguments.jobs) {
    const auto id =
        find_job(session, typed, arguments.array ? JobMeant::kOnlyArray : JobMeant::kOnly);
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
    for (const std::uint64_t job : ids) note(change_one(session, job, request));
  }
  if (selector.empty()) return status;
  const auto chosen = jobs_with(session, selector);
  if (!chosen) return chosen.error();
  for (const std::uint64_t job : *chosen) note(change_one(session, job, request));
  if (chosen->empty()) session.say("none of your jobs that have not ended has that label");
  return status;
}

void add_jobs(CLI::App& command, ActionArguments& arguments) {
  command.add_option("JOB", arguments.jobs, "Numbers or names");
  add_label_selector(command, arguments.labels);
  command.add_flag("--array", arguments.array, "All tasks of the array that this job is of");
}

void add_action(CommandTree& tree, const char* name, const char* summary, const char* footer,
                const Request& request) {
  auto arguments = std::make_shared<ActionArguments>();
  CLI::App* command = tree.add(
      heading::kJobs, name, summary, footer,
      [=](const Session& session) -> Result<int> { return change(session, *arguments, request); });
  add_jobs(*command, *arguments);
}

struct UpdateArguments {
  ActionArguments which;
  std::optional<std::int32_t> priority;
  std::optional<std::uint32_t> members;
  std::optional<std::string> queue, gpu, gpu_memory, time_limit, expected;
};

Result<int> update(const Session& session, const UpdateArguments& arguments) {
  json::object body;
  const auto put = [&body](std::string_view field, const auto& value) {
    if (value) body[field] = *value;
  };
  // "none" takes a limit away.
  const auto put_time = [&body](std::string_view field, const std::optional<std::string>& value) {
    if (value) body[field] = *value == "none" ? json::value(nullptr) : json::value(*value);
  };
  put("priority", arguments.priority);
  put_time("time_limit", arguments.time_limit);
  put_time("expected", arguments.expected);
  put("queue", arguments.queue);
  put("gpu", arguments.gpu);
  put("gpu_memory", arguments.gpu_memory);
  put("members", arguments.members);
  if (body.empty()) {
    return err(ErrorCode::kInvalidArgument,
               "nothing to change was named: --priority, --time-limit, --expected, --queue, --gpu, "
               "--gpu-mem or --members");
  }
  return change(session, arguments.which, {.method = "PATCH", .body = json::serialize(body)});
}

void add_update(CommandTree& tree) {
  auto arguments = std::make_shared<UpdateArguments>();
  CLI::App* command =
      tree.add(heading::kJobs, "update", "Change jobs that have not ended", kUpdateFooter,
               [arguments](const Session& session) { return update(session, *arguments); });
  add_jobs(*command, arguments->which);
  const auto option = [&](const char* name, auto& value, const char* text, const char* type) {
    command->add_option(name, value, text)->type_name(type);
  };
  option("--priority", arguments->priority, "-1000 to 1000; higher goes first", "NUMBER");
  option("--time-limit", arguments->time_limit, "Ended after so long, or none", "TIME");
  option("--expected", arguments->expected, "How long it will take, as you guess, or none", "TIME");
  option("--queue", arguments->queue, "Another queue, while it waits", "QUEUE");
  option("--gpu", arguments->gpu, "How much of a GPU, or how many, while it waits", "SHARE");
  option("--gpu-mem", arguments->gpu_memory, "Memory on each GPU, while it waits", "SIZE");
  option("--members", arguments->members, "So many members, while it waits", "NUMBER");
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
  add_action(tree, "suspend", "Take a job from its GPUs, to go on later", kSuspendFooter,
             {.method = "POST", .word = "suspend"});
  add_action(tree, "resume", "Let a suspended job go on", kResumeFooter,
             {.method = "POST", .word = "resume"});
  add_action(tree, "requeue", "Take a job from its GPUs and let it wait again", kRequeueFooter,
             {.method = "POST", .word = "requeue"});
  add_update(tree);
  add_action(tree, "delete", "Cancel jobs", kDeleteFooter, {.method = "DELETE"});
  auto arguments = std::make_shared<PruneArguments>();
  CLI::App* command = tree.add(
      heading::kJobs, "prune", "Forget jobs that ended long ago, with their output", kPruneFooter,
      [arguments](const Session& session) { return prune(session, *arguments); });
  command->add_option("--older-than", arguments->older_than, "Ended longer ago than this (7d)")
      ->type_name("TIME");
  command->add_flag("--everybody", arguments->everybody, "Not only your own; for operators");
}

}  // namespace divvy::cli
