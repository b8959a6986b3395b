// `divvy serve`: services, made, changed and looked at.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <boost/json.hpp>
#include <charconv>
#include <chrono>
#include <filesystem>
#include <memory>
#include <thread>

#include "base/text.h"
#include "cli/command_groups.h"
#include "cli/command_tree.h"
#include "cli/exit_codes.h"
#include "cli/serve_help_texts.h"
#include "cli/service_view.h"
#include "cli/session.h"
#include "cli/submit_flags.h"
#include "model/name.h"

namespace divvy::cli {
namespace {

namespace json = boost::json;
using namespace std::chrono_literals;

constexpr OutputFormat kDoneFormats[] = {OutputFormat::kTable, OutputFormat::kName,
                                         OutputFormat::kJson, OutputFormat::kYaml};
constexpr OutputFormat kListFormats[] = {OutputFormat::kTable, OutputFormat::kWide,
                                         OutputFormat::kJson,  OutputFormat::kYaml,
                                         OutputFormat::kName,  OutputFormat::kCsv};
constexpr OutputFormat kTextFormats[] = {OutputFormat::kTable, OutputFormat::kJson,
                                         OutputFormat::kYaml};

// A day.
constexpr std::uint32_t kLongestLatencyMs = 24 * 60 * 60 * 1000;

struct ServeArguments {
  std::string name;
  SubmitFlags flags;
  std::vector<std::string> command;
  std::optional<std::uint32_t> port, in_flight, gpu_use, weight, to;
  std::optional<std::string> replicas, ready, ready_within, drain, request_wait, calm, idle,
      latency;
  bool wait = false;
  std::string format = "table";
};

Status check_there_are_services(const Session& session) {
  DIVVY_TRY(daemon, session.daemon());
  if (!daemon.is_cluster()) return {};
  return err(ErrorCode::kInvalidArgument,
             "divvy serve is for one machine: on a cluster, a Deployment of pods with slices and a "
             "Service in front of them do the same");
}

std::string path_of(const std::string& name, const std::string& below = "") {
  return "/v1/services/" + escape_for_url(name) + below;
}

// "3", or "1..5"
Status read_replicas(const std::string& text, json::object& replicas) {
  const auto number = [&](std::string_view part) -> Result<std::uint32_t> {
    std::uint32_t value = 0;
    const auto read = std::from_chars(part.data(), part.data() + part.size(), value);
    if (!part.empty() && read.ec == std::errc() && read.ptr == part.data() + part.size()) {
      return value;
    }
    return err(ErrorCode::kInvalidArgument,
               "--replicas: \"{}\" is neither a number like 3 nor two like 1..5",
               escape_for_terminal(text.substr(0, 60)));
  };
  const std::size_t dots = text.find("..");
  DIVVY_TRY(least, number(std::string_view(text).substr(0, dots)));
  std::uint32_t most = least;
  if (dots != std::string::npos) {
    DIVVY_TRY(last, number(std::string_view(text).substr(dots + 2)));
    most = last;
  }
  replicas["least"] = least;
  replicas["most"] = most;
  return {};
}

// "50ms", "2s"
Result<std::uint32_t> read_milliseconds(const std::string& text) {
  std::uint32_t value = 0;
  const char* const end = text.data() + text.size();
  const auto read = std::from_chars(text.data(), end, value);
  const std::string_view unit(read.ptr, end);
  const std::uint64_t each = unit == "s" ? 1000 : 1;
  const bool known = unit == "ms" || unit == "s" || (unit.empty() && value == 0);
  if (read.ec != std::errc() || !known || value > kLongestLatencyMs / each) {
    return err(ErrorCode::kInvalidArgument,
               "--latency: \"{}\" is no time like 50ms or 2s; 0 turns it off",
               escape_for_terminal(text.substr(0, 60)));
  }
  return static_cast<std::uint32_t>(value * each);
}

// The fields of a service that were named.
Result<json::object> settings_document(const ServeArguments& arguments) {
  json::object document;
  json::object replicas;
  if (arguments.replicas) {
    DIVVY_RETURN_IF_ERROR(read_replicas(*arguments.replicas, replicas));
  }
  if (arguments.in_flight) replicas["in_flight"] = *arguments.in_flight;
  if (arguments.gpu_use) replicas["gpu_use"] = *arguments.gpu_use;
  bool measured = arguments.gpu_use.value_or(0) > 0;
  if (arguments.latency) {
    DIVVY_TRY(latency, read_milliseconds(*arguments.latency));
    replicas["latency_ms"] = latency;
    measured = measured || latency > 0;
  }
  // Instead of requests in flight, unless they are named, too.
  if (measured && !arguments.in_flight) replicas["in_flight"] = 0;
  if (arguments.calm) replicas["calm"] = *arguments.calm;
  if (arguments.idle) replicas["idle"] = *arguments.idle;
  if (!replicas.empty()) document["replicas"] = std::move(replicas);
  if (arguments.port) document["port"] = *arguments.port;
  if (arguments.ready) document["ready"] = *arguments.ready;
  if (arguments.ready_within) document["ready_within"] = *arguments.ready_within;
  if (arguments.drain) document["drain"] = *arguments.drain;
  if (arguments.request_wait) document["wait"] = *arguments.request_wait;
  return document;
}

// As a job is submitted: where the caller is, and with their path of programs.
Result<json::object> job_document(const Session& session, const ServeArguments& arguments) {
  json::object document;
  DIVVY_RETURN_IF_ERROR(apply(arguments.flags, arguments.command, document));
  if (!document.contains("gpu") && !document.contains("gpu_memory")) document["gpu"] = "1";
  DIVVY_TRY(config, load_client_config(session.terminal.environment));
  if (!document.contains("queue") && !config.queue.empty()) document["queue"] = config.queue;
  if (document.contains("container") && !document["container"].is_null()) return document;
  if (!document.contains("working_directory")) {
    std::error_code code;
    const auto here = std::filesystem::current_path(code);
    if (!code) document["working_directory"] = here.string();
  }
  DIVVY_TRY(daemon, session.daemon());
  const auto path = session.terminal.environment("PATH");
  if (!daemon.is_remote() && path) {
    json::value& variables = document["environment"];
    if (variables.is_null()) variables = json::object();
    if (variables.is_object()) variables.as_object().emplace("PATH", *path);
  }
  return document;
}

int print_done(const Session& session, const Asked& done, OutputFormat format,
               const std::string& sentence) {
  switch (format) {
    case OutputFormat::kJson:
    case OutputFormat::kYaml:
      return session.print(write_document(done.body(), format));
    case OutputFormat::kName:
      return session.print(done.answer()["name"].text() + "\n");
    default:
      return session.print(sentence + "\n");
  }
}

// A canary is "ready" as a service before its first replica is.
bool is_up(const Answer& version) {
  const auto replicas = version["replicas"].number().value_or(0);
  return replicas > 0 && version["readyReplicas"].number() == replicas;
}

// Until the version that is wanted has all its replicas, or was taken back.
int wait_until_ready(const Session& session, const std::string& name, std::int64_t version) {
  std::string said;
  for (;;) {
    const Asked asked = ask(session, "GET", path_of(name));
    if (!asked) return asked.status();
    const Answer& service = asked.answer();
    Answer wanted;
    for (const Answer& one : service["versions"].items()) {
      if (one["number"].number() == version) wanted = one;
    }
    if (wanted["state"].text() == "rejected") {
      session.say(fmt::format("version {} was taken back: {}", version, wanted["rejected"].text()));
      return kExitError;
    }
    if (wanted.empty() || wanted["state"].text() == "replaced") {
      session.say(
          fmt::format("version {} was replaced by version {}", version, service["stable"].text()));
      return kExitError;
    }
    const std::string state = service["state"].text();
    if (state == "asleep" || (state == "ready" && is_up(wanted))) return kExitOk;
    if (state == "deleting") {
      session.say(fmt::format("{} is being deleted", name));
      return kExitError;
    }
    if (const std::string trouble = service["trouble"].text(); trouble != said) {
      said = trouble;
      if (!trouble.empty()) session.say(trouble);
    }
    std::this_thread::sleep_for(200ms);
  }
}

Result<int> serve(const Session& session, const ServeArguments& arguments) {
  DIVVY_TRY(format, parse_output_format(arguments.format, kDoneFormats));
  DIVVY_RETURN_IF_ERROR(check_there_are_services(session));
  if (arguments.name.empty()) {
    return err(ErrorCode::kInvalidArgument,
               "no name was given: divvy serve chat --gpu 0.2 --port 8000 -- ./server");
  }
  DIVVY_RETURN_IF_ERROR(model::check_name("service", arguments.name));
  if (!arguments.port) {
    return err(ErrorCode::kInvalidArgument,
               "--port is missing: where is the service to be reached, like 8000?");
  }
  if (arguments.command.empty() && !arguments.flags.image) {
    return err(ErrorCode::kInvalidArgument,
               "no command was given: divvy serve chat --gpu 0.2 --port 8000 -- ./server");
  }
  DIVVY_TRY(document, settings_document(arguments));
  DIVVY_TRY(job, job_document(session, arguments));
  document["name"] = arguments.name;
  document["job"] = std::move(job);
  const auto daemon = session.daemon();
  if (!daemon->is_remote()) {
    const auto started = daemon->start_where_none_runs();
    if (!started) return session.fail(started.error());
    if (*started) {
      session.say("started divvyd in the background (its socket is " +
                  daemon->options().socket.string() + ")");
    }
  }
  const Asked made = ask(session, "POST", "/v1/services", json::serialize(document));
  if (!made) return made.status();
  const int shown =
      print_done(session, made, format,
                 fmt::format("{} is served at {}", arguments.name, service_address(made.answer())));
  if (shown != kExitOk) return shown;
  if (arguments.wait) return wait_until_ready(session, arguments.name, 1);
  if (format == OutputFormat::kTable) session.say("next: divvy serve get " + arguments.name);
  return kExitOk;
}

Result<int> update(const Session& session, const ServeArguments& arguments) {
  DIVVY_TRY(format, parse_output_format(arguments.format, kDoneFormats));
  DIVVY_RETURN_IF_ERROR(check_there_are_services(session));
  const Asked found = ask(session, "GET", path_of(arguments.name));
  if (!found) return found.status();
  const auto stable = found.answer()["stable"].number();
  json::object job;
  for (const Answer& version : found.answer()["versions"].items()) {
    if (version["number"].number() != stable || version["spec"].empty()) continue;
    job = json::parse(version["spec"].json()).as_object();
  }
  if (job.empty()) {
    return session.fail(
        Error{ErrorCode::kPermissionDenied, "only the owner of a service and admins change it"});
  }
  const json::object before = job;
  DIVVY_RETURN_IF_ERROR(apply(arguments.flags, arguments.command, job));
  if (job == before) {
    return err(ErrorCode::kInvalidArgument,
               "nothing about it is new: name another command, image or option; divvy serve scale "
               "changes how many there are");
  }
  json::object document{{"job", std::move(job)}};
  if (arguments.weight) document["weight"] = *arguments.weight;
  const Asked done =
      ask(session, "POST", path_of(arguments.name, "/versions"), json::serialize(document));
  if (!done) return done.status();
  const Answer version = done.answer()["candidate"]["version"];
  const int shown = print_done(
      session, done, format,
      fmt::format("version {} of {} is on its way, for {} % of the requests", version.text(),
                  arguments.name, done.answer()["candidate"]["weight"].text()));
  if (shown != kExitOk || !arguments.wait) return shown;
  return wait_until_ready(session, arguments.name, version.number().value_or(0));
}

Result<int> scale(const Session& session, const ServeArguments& arguments) {
  DIVVY_TRY(format, parse_output_format(arguments.format, kDoneFormats));
  DIVVY_RETURN_IF_ERROR(check_there_are_services(session));
  DIVVY_TRY(document, settings_document(arguments));
  if (document.empty()) {
    return err(ErrorCode::kInvalidArgument,
               "nothing to change was named: --replicas 5, or --replicas 0..5");
  }
  const Asked done = ask(session, "PATCH", path_of(arguments.name), json::serialize(document));
  if (!done) return done.status();
  return print_done(session, done, format,
                    fmt::format("{} has {}", arguments.name, replicas_text(done.answer())));
}

Result<int> promote(const Session& session, const ServeArguments& arguments) {
  DIVVY_TRY(format, parse_output_format(arguments.format, kDoneFormats));
  DIVVY_RETURN_IF_ERROR(check_there_are_services(session));
  json::object document;
  if (arguments.weight) document["weight"] = *arguments.weight;
  const Asked done =
      ask(session, "POST", path_of(arguments.name, "/promote"), json::serialize(document));
  if (!done) return done.status();
  const Answer candidate = done.answer()["candidate"];
  return print_done(
      session, done, format,
      fmt::format("version {} of {} gets {} % of the requests", candidate["version"].text(),
                  arguments.name, candidate["weight"].text()));
}

Result<int> roll_back(const Session& session, const ServeArguments& arguments) {
  DIVVY_TRY(format, parse_output_format(arguments.format, kDoneFormats));
  DIVVY_RETURN_IF_ERROR(check_there_are_services(session));
  json::object document;
  if (arguments.to) document["to"] = *arguments.to;
  const Asked done =
      ask(session, "POST", path_of(arguments.name, "/rollback"), json::serialize(document));
  if (!done) return done.status();
  const Answer candidate = done.answer()["candidate"];
  return print_done(
      session, done, format,
      candidate.empty()
          ? fmt::format("{} stays with version {}", arguments.name, done.answer()["stable"].text())
          : fmt::format("{} goes back to version {}", arguments.name, candidate["version"].text()));
}

Result<int> remove(const Session& session, const ServeArguments& arguments) {
  DIVVY_RETURN_IF_ERROR(check_there_are_services(session));
  const Asked done = ask(session, "DELETE", path_of(arguments.name));
  if (!done) return done.status();
  return session.print(fmt::format(
      "{} takes no new requests; its replicas end when theirs are done\n", arguments.name));
}

Result<int> list(const Session& session, const ServeArguments& arguments) {
  DIVVY_TRY(format, parse_output_format(arguments.format, kListFormats));
  DIVVY_RETURN_IF_ERROR(check_there_are_services(session));
  const Asked asked = ask(session, "GET", "/v1/services");
  if (!asked) return asked.status();
  DIVVY_TRY(text, show_list(service_list_view(), asked.body(), format, "", session.style));
  return session.print(text);
}

using Describe = std::string (*)(const Answer&, const Style&);
Result<int> show(const Session& session, const ServeArguments& arguments, Describe describe) {
  DIVVY_TRY(format, parse_output_format(arguments.format, kTextFormats));
  DIVVY_RETURN_IF_ERROR(check_there_are_services(session));
  const Asked asked = ask(session, "GET", path_of(arguments.name));
  if (!asked) return asked.status();
  if (format != OutputFormat::kTable) return session.print(write_document(asked.body(), format));
  return session.print(describe(asked.answer(), session.style));
}

void add_time(CLI::App& command, const char* name, std::optional<std::string>& value,
              const char* text) {
  command.add_option(name, value, text)->type_name("TIME");
}

void add_settings(CLI::App& command, ServeArguments& arguments) {
  command.add_option("--replicas", arguments.replicas, "How many: 3, or between 1..5 (1)")
      ->type_name("COUNT");
  command
      .add_option("--in-flight", arguments.in_flight,
                  "Requests that one replica works on at a time (8)")
      ->type_name("COUNT");
  command
      .add_option("--latency", arguments.latency,
                  "Until an answer begins, on average: more replicas above 50ms, fewer below half")
      ->type_name("TIME");
  command
      .add_option("--gpu-use", arguments.gpu_use,
                  "Percent of its share of the GPU that each replica is to use, on average")
      ->type_name("PERCENT");
  add_time(command, "--calm", arguments.calm,
           "So long fewer replicas would do, before there are fewer (1m)");
  add_time(command, "--idle", arguments.idle,
           "So long without a request, before there is no replica (5m)");
  command.add_option("--port", arguments.port, "Where the service is reached")->type_name("PORT");
  command.add_option("--ready", arguments.ready, "A path that answers when a replica is ready (/)")
      ->type_name("PATH");
  add_time(command, "--ready-within", arguments.ready_within,
           "So long that may take, from when the replica runs (5m)");
  add_time(command, "--drain", arguments.drain,
           "For requests in flight of a replica that is to end (30s)");
  add_time(command, "--request-wait", arguments.request_wait,
           "Of a request while there is no replica (5m)");
}

using Run = Result<int> (*)(const Session&, const ServeArguments&);
// A command about one service, with the arguments it reads.
std::pair<CLI::App*, std::shared_ptr<ServeArguments>> add_one(CommandTree& tree, CLI::App& serve,
                                                              const char* name, const char* summary,
                                                              const char* footer, Run run) {
  auto arguments = std::make_shared<ServeArguments>();
  CLI::App* command = tree.add_below(serve, name, summary, footer, [=](const Session& session) {
    return run(session, *arguments);
  });
  command->add_option("NAME", arguments->name, "Of the service")->required();
  return {command, arguments};
}

void add_changes(CommandTree& tree, CLI::App& serve) {
  const auto [updating, update_arguments] = add_one(
      tree, serve, "update", "Bring a new version, replica by replica", kServeUpdateFooter, update);
  tree.takes_command(*updating, update_arguments->command, 1);
  updating
      ->add_option("--weight", update_arguments->weight,
                   "Percent of the requests, until it is promoted (100)")
      ->type_name("PERCENT");
  updating->add_flag("--wait", update_arguments->wait,
                     "Wait until it has taken over; status 1 when it was taken back");
  add_submit_flags(*updating, update_arguments->flags);
  add_output(*updating, update_arguments->format, kDoneFormats);

  const auto [scaling, scale_arguments] =
      add_one(tree, serve, "scale", "Change how many replicas there are, and how it is looked at",
              kServeScaleFooter, scale);
  add_settings(*scaling, *scale_arguments);
  add_output(*scaling, scale_arguments->format, kDoneFormats);

  const auto [promoting, promote_arguments] =
      add_one(tree, serve, "promote", "Give the new version all requests, or more of them",
              kServePromoteFooter, promote);
  promoting->add_option("--weight", promote_arguments->weight, "Percent of the requests (100)")
      ->type_name("PERCENT");
  add_output(*promoting, promote_arguments->format, kDoneFormats);

  const auto [rolling, roll_arguments] =
      add_one(tree, serve, "rollback", "Take the new version back, or go to an earlier one",
              kServeRollbackFooter, roll_back);
  rolling->add_option("--to", roll_arguments->to, "The number of a version")->type_name("VERSION");
  add_output(*rolling, roll_arguments->format, kDoneFormats);

  (void)add_one(tree, serve, "delete", "End a service and its replicas", "", remove);
}

void add_views(CommandTree& tree, CLI::App& serve) {
  auto arguments = std::make_shared<ServeArguments>();
  CLI::App* listing =
      tree.add_below(serve, "list", "Services and how they stand", "",
                     [arguments](const Session& session) { return list(session, *arguments); });
  add_output(*listing, arguments->format, kListFormats);
  const auto [getting, get_arguments] =
      add_one(tree, serve, "get", "One service and its replicas", "",
              [](const Session& session, const ServeArguments& typed) {
                return show(session, typed, service_summary);
              });
  add_output(*getting, get_arguments->format, kTextFormats);
  const auto [telling, history_arguments] =
      add_one(tree, serve, "history", "Its versions, and what happened", "",
              [](const Session& session, const ServeArguments& typed) {
                return show(session, typed, service_history);
              });
  add_output(*telling, history_arguments->format, kTextFormats);
}

}  // namespace

void add_serve_commands(CommandTree& tree) {
  auto arguments = std::make_shared<ServeArguments>();
  CLI::App* command = tree.add(
      heading::kJobs, "serve", "Keep replicas of a command running behind one port", kServeFooter,
      [arguments](const Session& session) { return serve(session, *arguments); });
  command->add_option("NAME", arguments->name, "Of a new service");
  tree.takes_command(*command, arguments->command, 1);
  add_settings(*command, *arguments);
  command->add_flag("--wait", arguments->wait, "Wait until its replicas are ready");
  add_submit_flags(*command, arguments->flags);
  add_output(*command, arguments->format, kDoneFormats);
  add_changes(tree, *command);
  add_views(tree, *command);
}

}  // namespace divvy::cli
