// `divvy session`: notebooks, editors and shells as jobs.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <boost/json.hpp>
#include <memory>
#include <random>

#include "base/text.h"
#include "cli/app_session.h"
#include "cli/command_groups.h"
#include "cli/command_tree.h"
#include "cli/exit_codes.h"
#include "cli/job_reference.h"
#include "cli/job_view.h"
#include "cli/list_view.h"
#include "cli/logs_command.h"
#include "cli/member_channel.h"
#include "cli/session.h"
#include "cli/session_help_texts.h"
#include "cli/submit_document.h"
#include "cli/submit_flags.h"
#include "cli/wait_command.h"
#include "model/seconds.h"

namespace divvy::cli {
namespace {

namespace json = boost::json;

constexpr const char* kUnfinished = "queued,starting,running,stopping,suspended";
constexpr const char* kUsualTime = "12h";

// In a container its port is at one of the machine's.
std::uint16_t some_port() {
  std::random_device random;
  return std::uniform_int_distribution<std::uint16_t>(20'000, 31'999)(random);
}

Apps apps_of(const Session& session) {
  Apps apps = find_apps(app_folders(session));
  for (const std::string& trouble : apps.troubles) session.say(escape_for_terminal(trouble));
  return apps;
}

Result<AppTemplate> app_called(const Apps& apps, const std::string& name) {
  const auto found = apps.by_name.find(name);
  if (found != apps.by_name.end()) return found->second;
  std::vector<std::string_view> known;
  known.reserve(apps.by_name.size());
  for (const auto& [each, app] : apps.by_name) known.push_back(each);
  const auto meant = did_you_mean(name, known);
  return err(ErrorCode::kInvalidArgument,
             "there is no app {}{}; `divvy session apps` shows those there are",
             escape_for_terminal(name.substr(0, 60)),
             meant ? fmt::format("; did you mean {}?", *meant) : "");
}

tl::expected<AppSession, int> session_called(const Session& session, const std::string& typed,
                                             Answer* document = nullptr) {
  const auto id = find_job(session, typed, JobMeant::kNewest);
  if (!id) return tl::unexpected(id.error());
  const Asked job = ask(session, "GET", fmt::format("/v1/jobs/{}", *id));
  if (!job) return tl::unexpected(job.status());
  const auto found = app_session_of(job.answer());
  if (document != nullptr) *document = job.answer();
  if (found) return *found;
  if (job.answer()["spec"].empty()) {
    session.say(fmt::format("job {} belongs to {}; sessions are opened by their owners", *id,
                            job.answer()["owner"].text()));
    return tl::unexpected(kExitDenied);
  }
  session.say(fmt::format("job {} is no session; `divvy session list` shows yours", *id));
  return tl::unexpected(kExitNotFound);
}

struct StartArguments {
  SubmitFlags flags;
  std::string app = "jupyter";
  std::vector<std::string> words;
  OpenWish open;
  bool no_browser = false;
  bool detach = false;
};

struct OpenArguments {
  std::string job;
  OpenWish open;
  bool no_browser = false;
};

// Waits for its turn first.
int open_when_running(const Session& session, const AppTemplate& app, std::uint64_t job,
                      const OpenWish& wish) {
  const int waited =
      wait_for_job(session, job, {.what = WaitFor::kRunning, .quiet = true, .reached = true});
  if (waited != kExitOk) {
    const Asked now = ask(session, "GET", fmt::format("/v1/jobs/{}", job));
    if (!now) return now.status();
    const std::string state = now.answer()["state"].text();
    if (is_final_state(state)) {
      say_how_it_ended(session, app, job, state);
    } else {
      session.say(fmt::format("the session did not start: divvy get {}", job));
    }
    return waited;
  }
  const auto running = session_called(session, fmt::to_string(job));
  if (!running) return running.error();
  return open_session(session, app, *running, wish);
}

Result<int> start(const Session& session, const StartArguments& arguments) {
  const Apps apps = apps_of(session);
  DIVVY_TRY(app, app_called(apps, arguments.app));
  if (arguments.flags.members || arguments.flags.array) {
    return err(ErrorCode::kInvalidArgument, "a session has one member: leave out {}",
               arguments.flags.members ? "--members" : "--array");
  }
  const auto config = load_client_config(session.terminal.environment);
  if (!config) return session.fail(config.error());
  const auto daemon = session.daemon();
  if (!daemon) return session.fail(daemon.error());
  json::object document;
  DIVVY_RETURN_IF_ERROR(apply(arguments.flags, {}, document));
  const bool contained = document.contains("container");
  if (daemon->is_cluster() && !contained) {
    return err(ErrorCode::kInvalidArgument,
               "on a cluster a session runs in an image: --image IMAGE{}",
               app.program.empty() ? "" : ", in which there is " + app.program);
  }
  const bool published = contained && !daemon->is_cluster();
  DIVVY_RETURN_IF_ERROR(put_app(app,
                                {.token = new_channel_name().substr(0, 32),
                                 .arguments = arguments.words,
                                 .published = published ? std::optional(some_port()) : std::nullopt,
                                 .in_pod = daemon->is_cluster()},
                                document));
  document.emplace("time_limit", kUsualTime);
  DIVVY_RETURN_IF_ERROR(complete_document(session, *daemon, *config, document));
  if (const Status there = have_daemon(session, *daemon); !there) {
    return session.fail(there.error());
  }
  const Asked submitted = ask(session, "POST", "/v1/jobs", json::serialize(document));
  if (!submitted) return submitted.status();
  const auto jobs = submitted.answer()["items"].items();
  const auto id = jobs.empty() ? std::nullopt : jobs.front()["id"].number();
  if (!id) {
    return session.fail(Error{ErrorCode::kInternal, "divvyd took the job and did not number it"});
  }
  const auto job = static_cast<std::uint64_t>(*id);
  session.say(fmt::format("session {} ({}) is {}; `divvy get {}` says how it stands", job, app.name,
                          jobs.front()["state"].text(), job));
  if (arguments.detach) return session.print(fmt::format("{}\n", job));
  OpenWish wish = arguments.open;
  wish.browser = !arguments.no_browser;
  return open_when_running(session, app, job, wish);
}

Result<int> open(const Session& session, const OpenArguments& arguments) {
  const auto found = session_called(session, arguments.job);
  if (!found) return found.error();
  const Apps apps = apps_of(session);
  DIVVY_TRY(app, app_called(apps, found->app));
  OpenWish wish = arguments.open;
  wish.browser = !arguments.no_browser;
  return open_when_running(session, app, found->job, wish);
}

// Until its time limit.
std::optional<std::int64_t> seconds_left(const Answer& job, WallTime now) {
  if (is_final_state(job["state"].text())) return std::nullopt;
  const std::string limit = job["spec"]["time_limit"].raw();
  const auto started = job["startedUnixMilliseconds"].number();
  const auto seconds =
      limit.empty() ? err(ErrorCode::kNotFound, "none") : model::parse_seconds(limit);
  if (!seconds || !started) return std::nullopt;
  const auto now_ms = std::chrono::duration_cast<std::chrono::milliseconds>(now.time_since_epoch());
  return std::max<std::int64_t>(0, seconds->count() - (now_ms.count() - *started) / 1000);
}

ListView session_view(const Session& session) {
  const auto gpus = job_list_view(session.now());
  ListView view;
  view.name = "id";
  view.nothing = "you have no session; `divvy session start` begins one";
  const auto left = [now = session.now()](const Answer& job) { return seconds_left(job, now); };
  const auto span = [](std::optional<std::int64_t> seconds) {
    return Cell(seconds ? span_text(*seconds) : "");
  };
  view.columns = {
      number_column("ID", "id"),
      text_column("NAME", "name"),
      {.header = "APP",
       .cell = [](const Answer& job) { return Cell(job["spec"]["labels"][kSessionLabel].text()); }},
      {.header = "STATE",
       .cell =
           [](const Answer& job) {
             const std::string state = job["state"].text();
             return Cell(state, color_of_state(state));
           }},
      {.header = "GPU",
       .cell = [](const Answer& job) { return Cell(job_gpu_text(job)); },
       .align = Align::kRight},
      {.header = "LEFT",
       .cell = [left, span](const Answer& job) { return span(left(job)); },
       .align = Align::kRight,
       .number = left},
      {.header = "IDLE ENDS",
       .cell = [span](const Answer& job) { return span(job["idleLeftSeconds"].number()); },
       .align = Align::kRight}};
  return view;
}

struct ListArguments {
  std::string format = "table";
  bool all = false;
};

Result<int> list(const Session& session, const ListArguments& arguments) {
  DIVVY_TRY(format, parse_output_format(arguments.format, kListFormats));
  const auto daemon = session.daemon();
  if (!daemon) return session.fail(daemon.error());
  // On a cluster jobs are those of a namespace.
  std::string owner;
  if (!daemon->is_cluster()) {
    const Asked me = ask(session, "GET", "/v1/whoami");
    if (!me) return me.status();
    owner = me.answer()["name"].raw();
  }
  std::string items;
  for (std::string after;;) {
    const Asked page = ask(session, "GET",
                           "/v1/jobs" + write_query({{"owner", owner},
                                                     {"state", arguments.all ? "" : kUnfinished},
                                                     {"after", after},
                                                     {"limit", "1000"}}));
    if (!page) return page.status();
    for (const Answer& job : page.answer()["items"].items()) {
      if (app_session_of(job)) items += (items.empty() ? "" : ",") + job.json();
    }
    after = page.answer()["next"].text();
    if (after.empty()) break;
  }
  DIVVY_TRY(text, show_list(session_view(session),
                            R"({"apiVersion":"divvy/v1","kind":"JobList","items":[)" + items + "]}",
                            format, "", session.style));
  return session.print(text);
}

struct ExtendArguments {
  std::string job;
  std::string by = "4h";
};

Result<int> extend(const Session& session, const ExtendArguments& arguments) {
  DIVVY_TRY(by, with_context(model::parse_seconds(arguments.by), "--by"));
  const auto daemon = session.daemon();
  if (!daemon) return session.fail(daemon.error());
  if (daemon->is_cluster()) {
    return err(ErrorCode::kInvalidArgument,
               "Kubernetes never gives a pod more time than it began with; start the session with "
               "--time-limit");
  }
  Answer job;
  const auto found = session_called(session, arguments.job, &job);
  if (!found) return found.error();
  const std::string limit = job["spec"]["time_limit"].raw();
  if (limit.empty()) return session.print(fmt::format("session {} has no end\n", found->job));
  DIVVY_TRY(before, model::parse_seconds(limit));
  const Asked changed =
      ask(session, "PATCH", fmt::format("/v1/jobs/{}", found->job),
          json::serialize(json::object{{"time_limit", model::seconds_text(before + by)}}));
  if (!changed) return changed.status();
  const auto left = seconds_left(changed.answer(), session.now());
  return session.print(
      fmt::format("session {} ends {}\n", found->job,
                  left ? "in " + span_text(*left) : "after " + model::seconds_text(before + by)));
}

Result<int> stop(const Session& session, const std::vector<std::string>& typed) {
  int status = kExitOk;
  for (const std::string& each : typed) {
    const auto found = session_called(session, each);
    const Asked done = found ? ask(session, "DELETE", fmt::format("/v1/jobs/{}", found->job))
                             : Asked(found.error());
    if (done) {
      const std::string state = done.answer()["state"].text();
      (void)session.print(fmt::format("session {} {} {}\n", found->job,
                                      is_final_state(state) ? "has ended:" : "is", state));
    } else if (status == kExitOk) {
      status = done.status();
    }
  }
  return status;
}

Result<int> show_apps(const Session& session, const std::string& typed_format) {
  DIVVY_TRY(format, parse_output_format(typed_format, kListFormats));
  const Apps apps = apps_of(session);
  json::array items;
  for (const auto& [name, app] : apps.by_name) {
    items.push_back(json::object{{"name", name}, {"summary", app.summary}, {"gpu", app.gpu}});
  }
  const ListView view{.columns = {text_column("NAME", "name"), text_column("GPU", "gpu"),
                                  text_column("WHAT IT IS", "summary")},
                      .name = "name",
                      .nothing = ""};
  const json::object document{
      {"apiVersion", "divvy/v1"}, {"kind", "AppList"}, {"items", std::move(items)}};
  DIVVY_TRY(text, show_list(view, json::serialize(document), format, "", session.style));
  return session.print(text);
}

void add_open_options(CLI::App& command, OpenWish& wish, bool& no_browser) {
  command.add_option("--port", wish.local_port, "The port here (any that is free)")
      ->type_name("PORT");
  command.add_option("--address", wish.address, "Listen on this one (127.0.0.1)")
      ->type_name("ADDRESS");
  command.add_flag("--no-browser", no_browser, "Only print the address");
}

void add_start(CommandTree& tree, CLI::App& group) {
  auto arguments = std::make_shared<StartArguments>();
  CLI::App* command =
      tree.add_below(group, "start", "Start an app, wait for it and open it", kSessionStartFooter,
                     [arguments](const Session& session) { return start(session, *arguments); });
  tree.takes_command(*command, arguments->words, 0, "[ARGUMENT...]");
  command->add_option("--app", arguments->app, "jupyter, code, tensorboard, shell, ... (jupyter)")
      ->type_name("APP");
  command->add_flag("-d,--detach", arguments->detach, "Do not open it; print its number");
  add_open_options(*command, arguments->open, arguments->no_browser);
  add_submit_flags(*command, arguments->flags);
  command->get_option("--gpu")->description(
      "How much of a GPU, or how many: 0.3, 1, 0 (default: as `divvy session apps` says)");
}

}  // namespace

void add_session_commands(CommandTree& tree) {
  CLI::App* group = tree.add(heading::kJobs, "session", "Notebooks, editors and shells on a slice",
                             kSessionFooter);
  add_start(tree, *group);
  auto opened = std::make_shared<OpenArguments>();
  CLI::App* command =
      tree.add_below(*group, "open", "Open one that is there", kSessionOpenFooter,
                     [opened](const Session& session) { return open(session, *opened); });
  command->add_option("SESSION", opened->job, "Its number or name")->required();
  add_open_options(*command, opened->open, opened->no_browser);

  auto listed = std::make_shared<ListArguments>();
  command =
      tree.add_below(*group, "list", "Your sessions and how long they have", kSessionListFooter,
                     [listed](const Session& session) { return list(session, *listed); });
  command->add_flag("-a,--all", listed->all, "Also those that have ended");
  add_output(*command, listed->format, kListFormats);

  auto extended = std::make_shared<ExtendArguments>();
  command =
      tree.add_below(*group, "extend", "Give one more time", kSessionExtendFooter,
                     [extended](const Session& session) { return extend(session, *extended); });
  command->add_option("SESSION", extended->job, "Its number or name")->required();
  command->add_option("--by", extended->by, "So much longer (4h)")->type_name("TIME");

  auto logged = std::make_shared<std::string>();
  command = tree.add_below(*group, "logs", "What one wrote", kSessionLogsFooter,
                           [logged](const Session& session) -> Result<int> {
                             const auto found = session_called(session, *logged);
                             return found ? show_logs(session, found->job, {}) : found.error();
                           });
  command->add_option("SESSION", *logged, "Its number or name")->required();

  auto stopped = std::make_shared<std::vector<std::string>>();
  command = tree.add_below(*group, "stop", "End sessions", kSessionStopFooter,
                           [stopped](const Session& session) { return stop(session, *stopped); });
  command->add_option("SESSION", *stopped, "Numbers or names")->required();

  auto format = std::make_shared<std::string>("table");
  command =
      tree.add_below(*group, "apps", "The apps that there are", kSessionAppsFooter,
                     [format](const Session& session) { return show_apps(session, *format); });
  add_output(*command, *format, kListFormats);
}

}  // namespace divvy::cli
