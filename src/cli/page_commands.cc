// Commands about `divvy` itself: completion, man, version.
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <fstream>
#include <memory>
#include <set>

#include "base/text.h"
#include "cli/command_groups.h"
#include "cli/command_pages.h"
#include "cli/command_tree.h"
#include "cli/completion.h"
#include "cli/exit_codes.h"
#include "cli/help_format.h"
#include "cli/job_help_texts.h"
#include "cli/pager.h"
#include "cli/session.h"

namespace divvy::cli {
namespace {

constexpr OutputFormat kVersionFormats[] = {OutputFormat::kTable, OutputFormat::kJson,
                                            OutputFormat::kYaml};

// Nobody waits for longer while they type.
constexpr auto kPatience = std::chrono::milliseconds(500);

std::vector<Candidate> names_from(const Session& session, const std::string& path,
                                  const char* field, const char* text, const char* more = "") {
  const auto daemon = session.daemon();
  if (!daemon) return {};
  const auto reply = daemon->ask({.method = "GET", .path = path, .timeout = kPatience});
  if (!reply || !reply->ok()) return {};
  const auto answer = Answer::parse(reply->body);
  if (!answer) return {};
  std::vector<Candidate> names;
  for (const Answer& item : (*answer)["items"].items()) {
    const std::string about(trim(item[text].text() + " " + item[more].text()));
    names.push_back({item[field].text(), about});
  }
  return names;
}

std::vector<Candidate> each_once(std::vector<Candidate> candidates) {
  std::vector<Candidate> once;
  for (Candidate& candidate : candidates) {
    if (std::ranges::find(once, candidate.word, &Candidate::word) == once.end()) {
      once.push_back(std::move(candidate));
    }
  }
  return once;
}

// What can be executed in the folders of PATH.
std::vector<Candidate> programs(const std::string& path) {
  std::set<std::string> names;
  for (const std::string_view folder : split(path, ':')) {
    std::error_code code;
    for (const auto& entry : std::filesystem::directory_iterator(folder, code)) {
      const bool runs = entry.is_regular_file(code) && ::access(entry.path().c_str(), X_OK) == 0;
      if (runs) names.insert(entry.path().filename().string());
    }
  }
  std::vector<Candidate> candidates;
  candidates.reserve(names.size());
  for (const std::string& name : names) candidates.push_back({name, ""});
  return candidates;
}

// Quick, and silent when there is no daemon: an empty list is an answer too.
std::vector<Candidate> find_names(const Session& session, const std::string& kind,
                                  const std::string& command) {
  if (kind == "QUEUE") return names_from(session, "/v1/queues", "path", "");
  if (kind == "USER") return names_from(session, "/v1/people", "name", "role");
  if (kind == "GPU") return names_from(session, "/v1/gpus", "index", "model");
  if (kind == "MODEL") return each_once(names_from(session, "/v1/gpus", "model", ""));
  if (kind == "TENANT") return names_from(session, "/v1/tenants", "name", "user", "state");
  if (kind == "SLICE") return names_from(session, "/v1/slices", "name", "user");
  if (kind == "TOKEN") return names_from(session, "/v1/tokens", "id", "label");
  if (kind == "PROGRAM") return programs(session.terminal.environment("PATH").value_or(""));
  if (kind == "CONTEXT") {
    std::vector<Candidate> names{{"local", "this machine"}};
    if (const auto config = load_client_config(session.terminal.environment)) {
      for (const ServerContext& context : config->contexts) {
        names.push_back({context.name, context.server});
      }
    }
    return names;
  }
  const bool also_ended = command == "get" || command == "describe" || command == "logs";
  const std::string path =
      "/v1/jobs" + write_query({{"state", also_ended ? ""
                                                     : "queued,starting,running,"
                                                       "stopping,suspended"},
                                {"limit", "100"}});
  std::vector<Candidate> jobs = names_from(session, path, "id", "name", "state");
  std::vector<Candidate> names = names_from(session, path, "name", "state");
  jobs.insert(jobs.end(), names.begin(), names.end());
  return each_once(std::move(jobs));
}

void add_completion(CommandTree& tree) {
  auto shell = std::make_shared<std::string>();
  CLI::App* completion =
      tree.add(heading::kOther, "completion", "Print what makes a shell complete commands of divvy",
               kCompletionFooter, [shell](const Session& session) -> Result<int> {
                 DIVVY_TRY(script, completion_script(*shell));
                 return session.print(script);
               });
  completion->add_option("SHELL", *shell, "One of: bash, zsh or fish")->required();

  auto words = std::make_shared<std::vector<std::string>>();
  CLI::App* complete_it =
      tree.add("", "__complete", "What can stand at the end of a command line", "",
               [words](const Session& session) -> Result<int> {
                 const auto names = [&](const std::string& kind, const std::string& command) {
                   return find_names(session, kind, command);
                 };
                 return session.print(to_text(complete(session.tree, *words, names)));
               });
  tree.takes_command(*complete_it, *words);
}

struct ManArguments {
  std::vector<std::string> command;
  std::string folder;
  bool markdown = false;
};

int write_pages(const Session& session, const std::string& folder) {
  std::error_code code;
  std::filesystem::create_directories(folder, code);
  for (const ManPage& page : man_pages(session.tree, session.services.version)) {
    std::ofstream file(std::filesystem::path(folder) / page.file);
    file << page.text << std::flush;
    if (!file) {
      session.say(folder + "/" + page.file + " could not be written");
      return kExitError;
    }
  }
  return kExitOk;
}

Result<int> man(const Session& session, const ManArguments& arguments) {
  if (!arguments.folder.empty()) return write_pages(session, arguments.folder);
  if (arguments.markdown) return session.print(commands_page(session.tree));
  const CLI::App* command = &session.tree.root();
  for (const std::string& word : arguments.command) {
    const auto below = shown_commands(*command);
    const auto found = std::ranges::find(below, word, &CLI::App::get_name);
    if (found == below.end()) {
      return err(ErrorCode::kInvalidArgument, "there is no command \"{}\"",
                 escape_for_terminal(word));
    }
    command = *found;
  }
  const std::string page = man_page(session.tree, *command, session.services.version);
  if (!session.terminal.is_terminal) return session.print(page);
  const auto environment = [&](const char* name) {
    return session.terminal.environment(name).value_or("");
  };
  session.out << std::flush;
  // `man` formats it and has the user's pager; without it the help text has all the same words.
  if (const auto man = find_program("man", environment("PATH"))) {
    return show_in_pager({man->string(), "-l", "-"}, page) ? kExitOk : session.print(page);
  }
  const std::string text = help_text(*command);
  const std::string wanted = environment("PAGER");
  const auto pager = find_program(wanted.empty() ? "less" : wanted, environment("PATH"));
  if (pager && show_in_pager({pager->string()}, text)) return kExitOk;
  return session.print(text);
}

}  // namespace

void add_page_commands(CommandTree& tree) {
  add_completion(tree);
  auto arguments = std::make_shared<ManArguments>();
  CLI::App* command =
      tree.add(heading::kOther, "man", "Print the man page of a command", kManFooter,
               [arguments](const Session& session) { return man(session, *arguments); });
  command->add_option("COMMAND", arguments->command, "Of this command (divvy itself)");
  command->add_option("--to", arguments->folder, "Write all of them into this folder")
      ->type_name("FOLDER");
  command->add_flag("--markdown", arguments->markdown, "Print docs/commands.md");

  auto format = std::make_shared<std::string>("table");
  CLI::App* version = tree.add(
      heading::kOther, "version", "Print the version of Divvy", "",
      [format](const Session& session) -> Result<int> {
        DIVVY_TRY(wanted, parse_output_format(*format, kVersionFormats));
        const std::string& number = session.services.version;
        if (wanted == OutputFormat::kTable) return session.print("divvy " + number + "\n");
        return session.print(write_document(
            fmt::format(R"({{"apiVersion":"divvy/v1","kind":"Version","version":"{}"}})", number),
            wanted));
      });
  add_output(*version, *format, kVersionFormats);
}

}  // namespace divvy::cli
