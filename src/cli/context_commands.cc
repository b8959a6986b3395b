// Commands about which daemon is asked: context, config.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <boost/json.hpp>
#include <memory>

#include "base/text.h"
#include "cli/command_groups.h"
#include "cli/command_tree.h"
#include "cli/exit_codes.h"
#include "cli/list_view.h"
#include "cli/people_help_texts.h"
#include "cli/session.h"
#include "model/job_spec.h"
#include "model/name.h"

namespace divvy::cli {
namespace {

namespace json = boost::json;

namespace fs = std::filesystem;

// Loads, changes, checks that it can be read again, and saves.
int change(const Session& session, const std::function<Status(ClientConfig&)>& edit,
           const std::string& done) {
  const Environment& environment = session.terminal.environment;
  auto config = load_client_config(environment);
  if (!config) return session.fail(config.error());
  if (const Status edited = edit(*config); !edited) return session.fail(edited.error());
  const auto again = read_client_config(write_client_config(*config), "this change");
  if (!again) {
    // Where in the file it would have been means nothing to somebody who has not written one.
    Error error = again.error();
    const std::size_t reason = error.message.find(": ");
    if (reason != std::string::npos) error.message.erase(0, reason + 2);
    return session.fail(error);
  }
  if (*again != *config) {
    return session.fail(Error{ErrorCode::kInvalidArgument,
                              "there are characters in it that the "
                              "file cannot hold"});
  }
  if (const Status saved = save_client_config(environment, *config); !saved) {
    return session.fail(saved.error());
  }
  session.say(done);
  return kExitOk;
}

std::string absolute(const std::string& file) {
  return file.empty() ? file : fs::absolute(file).string();
}

// As every list is: what is used, and where.
std::string contexts_document(const ClientConfig& config, const std::string& used) {
  const auto text_or_null = [](const std::string& text) {
    return text.empty() ? json::value(nullptr) : json::value(text);
  };
  json::array items;
  items.push_back(json::object{{"name", "local"},
                               {"server", nullptr},
                               {"ca", nullptr},
                               {"tokenFile", nullptr},
                               {"used", used == "local"}});
  for (const ServerContext& context : config.contexts) {
    items.push_back(json::object{{"name", context.name},
                                 {"server", context.server},
                                 {"ca", text_or_null(context.ca)},
                                 {"tokenFile", text_or_null(context.token_file)},
                                 {"used", used == context.name}});
  }
  return json::serialize(json::object{
      {"apiVersion", "divvy/v1"}, {"kind", "ContextList"}, {"items", std::move(items)}});
}

ListView context_view() {
  ListView view;
  view.name = "name";
  view.columns = {
      {.header = "USED",
       .cell = [](const Answer& item) { return Cell(item["used"].flag() ? "*" : " "); }},
      text_column("NAME", "name"),
      {.header = "SERVER",
       .cell =
           [](const Answer& item) {
             const std::string server = item["server"].text();
             return Cell(server.empty() ? "this machine" : server);
           }},
      text_column("CA", "ca"),
      text_column("TOKEN", "tokenFile")};
  return view;
}

Result<int> list_contexts(const Session& session, const std::string& typed) {
  DIVVY_TRY(format, parse_output_format(typed, kListFormats));
  const auto config = load_client_config(session.terminal.environment);
  if (!config) return session.fail(config.error());
  const auto asked = session.choice.context ? session.choice.context
                                            : session.terminal.environment("DIVVY_CONTEXT");
  std::string used = asked && !asked->empty() ? *asked : config->context;
  if (used.empty()) used = "local";
  DIVVY_TRY(text,
            show_list(context_view(), contexts_document(*config, used), format, "", session.style));
  return session.print(text);
}

Status no_context(const std::string& name) {
  return err(ErrorCode::kNotFound, "there is no context {}; `divvy context list` shows them",
             escape_for_terminal(name));
}

void add_context(CommandTree& tree) {
  CLI::App* context = tree.add(heading::kOther, "context", "Which divvyd is asked", kContextFooter);
  auto listing = std::make_shared<std::pair<std::string, bool>>("table", false);
  CLI::App* list = tree.add_below(
      *context, "list", "The contexts there are", "", [listing](const Session& session) {
        return list_contexts(session, listing->second ? "name" : listing->first);
      });
  add_output(*list, listing->first, kListFormats);
  list->add_flag("--names", listing->second, "Only their names, like -o name");

  auto one = std::make_shared<ServerContext>();
  CLI::App* use =
      tree.add_below(*context, "use", "Ask this one from now on", "",
                     [one](const Session& session) -> Result<int> {
                       return change(
                           session,
                           [&](ClientConfig& config) -> Status {
                             if (one->name != "local" && config.find(one->name) == nullptr) {
                               return no_context(one->name);
                             }
                             config.context = one->name == "local" ? "" : one->name;
                             return {};
                           },
                           "from now on " + one->name + " is asked");
                     });
  CLI::App* add =
      tree.add_below(*context, "add", "Add a context, or change one", "",
                     [one](const Session& session) -> Result<int> {
                       DIVVY_RETURN_IF_ERROR(model::check_name("context", one->name));
                       if (one->name == "local") {
                         return err(ErrorCode::kInvalidArgument, "local is this machine's own");
                       }
                       one->ca = absolute(one->ca);
                       one->token_file = absolute(one->token_file);
                       return change(
                           session,
                           [&](ClientConfig& config) -> Status {
                             if (ServerContext* old = config.find(one->name)) {
                               *old = *one;
                             } else {
                               config.contexts.push_back(*one);
                             }
                             return {};
                           },
                           "next: divvy context use " + one->name);
                     });
  CLI::App* remove = tree.add_below(
      *context, "remove", "Forget a context; its token file stays", "",
      [one](const Session& session) -> Result<int> {
        return change(
            session,
            [&](ClientConfig& config) -> Status {
              if (config.find(one->name) == nullptr) return no_context(one->name);
              std::erase_if(config.contexts,
                            [&](const ServerContext& other) { return other.name == one->name; });
              if (config.context == one->name) config.context.clear();
              return {};
            },
            one->name + " is forgotten");
      });
  for (CLI::App* command : {use, add, remove}) {
    command->add_option("CONTEXT", one->name, "Its name")->required();
  }
  add->add_option("--at", one->server, "https://HOST:PORT or unix:PATH")
      ->type_name("URL")
      ->required();
  add->add_option("--ca", one->ca, "Authorities to believe, in a PEM file (this machine's)")
      ->type_name("FILE");
  add->add_option("--token-file", one->token_file, "A file with a token, that only you can read")
      ->type_name("FILE");
}

// The text behind a key; null: there is no such key.
std::string* setting(ClientConfig& config, const std::string& key) {
  if (key == "context") return &config.context;
  if (key == "queue") return &config.queue;
  const auto words = split(key, '.');
  if (words.size() != 3 || words[0] != "contexts") return nullptr;
  ServerContext* context = config.find(words[1]);
  if (context == nullptr) return nullptr;
  if (words[2] == "server") return &context->server;
  if (words[2] == "ca") return &context->ca;
  return words[2] == "token_file" ? &context->token_file : nullptr;
}

Error no_setting(const std::string& key) {
  return {ErrorCode::kNotFound, fmt::format("there is no setting {}; there are context, queue and "
                                            "contexts.NAME.server, .ca and .token_file",
                                            escape_for_terminal(key))};
}

void add_config(CommandTree& tree) {
  CLI::App* group = tree.add(heading::kOther, "config", "Your settings", kConfigFooter);
  tree.add_below(*group, "view", "Print them", "", [](const Session& session) -> Result<int> {
    const auto config = load_client_config(session.terminal.environment);
    if (!config) return session.fail(config.error());
    const auto file = client_config_file(session.terminal.environment);
    if (file && session.terminal.errors_are_terminal) session.say(file->string());
    return session.print(write_client_config(*config));
  });
  struct Arguments {
    std::string key;
    std::string value;
  };
  auto arguments = std::make_shared<Arguments>();
  CLI::App* get = tree.add_below(*group, "get", "Print one", "",
                                 [arguments](const Session& session) -> Result<int> {
                                   auto config = load_client_config(session.terminal.environment);
                                   if (!config) return session.fail(config.error());
                                   const std::string* value = setting(*config, arguments->key);
                                   if (value == nullptr)
                                     return session.fail(no_setting(arguments->key));
                                   return session.print(escape_for_terminal(*value) + "\n");
                                 });
  CLI::App* set = tree.add_below(
      *group, "set", "Change one", "", [arguments](const Session& session) -> Result<int> {
        if (arguments->key == "queue" && !arguments->value.empty()) {
          DIVVY_RETURN_IF_ERROR(model::check_queue_path(arguments->value));
        }
        return change(
            session,
            [&](ClientConfig& config) -> Status {
              std::string* value = setting(config, arguments->key);
              if (value == nullptr) return err(no_setting(arguments->key));
              if (arguments->key == "context" && !arguments->value.empty() &&
                  config.find(arguments->value) == nullptr) {
                return no_context(arguments->value);
              }
              *value = arguments->value;
              return {};
            },
            arguments->key + " is set");
      });
  get->add_option("KEY", arguments->key, "Like queue, or contexts.lab.server")->required();
  set->add_option("KEY", arguments->key, "Like queue, or contexts.lab.server")->required();
  set->add_option("VALUE", arguments->value, "Empty takes it away")->required();
}

}  // namespace

void add_context_commands(CommandTree& tree) {
  add_context(tree);
  add_config(tree);
}

}  // namespace divvy::cli
