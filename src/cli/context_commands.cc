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
                               {"kubeconfig", nullptr},
                               {"kubeContext", nullptr},
                               {"namespace", nullptr},
                               {"used", used == "local"}});
  for (const ServerContext& context : config.contexts) {
    items.push_back(json::object{{"name", context.name},
                                 {"server", context.server},
                                 {"ca", text_or_null(context.ca)},
                                 {"tokenFile", text_or_null(context.token_file)},
                                 {"kubeconfig", text_or_null(context.kubeconfig)},
                                 {"kubeContext", text_or_null(context.kube_context)},
                                 {"namespace", text_or_null(context.space)},
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
             if (!server.empty()) return Cell(server);
             const std::string cluster = item["kubeconfig"].text();
             if (cluster.empty()) return Cell("this machine");
             const std::string context = item["kubeContext"].text();
             return Cell("cluster " + (context.empty() ? cluster : context));
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

struct AddArguments {
  ServerContext context;
  bool kube = false;
};

// As kubectl finds it: named, of the environment, or at home.
Result<std::string> find_kubeconfig(const Environment& environment, const std::string& named) {
  if (!named.empty()) return absolute(named);
  const std::string listed = environment("KUBECONFIG").value_or("");
  if (!listed.empty()) return absolute(listed.substr(0, listed.find(':')));
  const std::string home = environment("HOME").value_or("");
  if (home.empty()) {
    return err(ErrorCode::kNotFound,
               "there is no HOME to have a kubeconfig in; name one by "
               "--kubeconfig FILE");
  }
  return home + "/.kube/config";
}

// Who Kubernetes says that we are there, or the exit status: a context that does not work is not
// added.
tl::expected<std::string, int> try_cluster(const Session& session, const ServerContext& context) {
  if (!session.services.cluster) {
    session.say("this divvy was built without Kubernetes; build it with DIVVY_KUBERNETES=ON");
    return tl::unexpected(kExitError);
  }
  auto cluster = session.services.cluster(context);
  if (!cluster) return tl::unexpected(session.fail(cluster.error()));
  Daemon::Options options;
  options.cluster = *std::move(cluster);
  const auto reply = Daemon(std::move(options)).ask("GET", "/v1/whoami");
  if (!reply) return tl::unexpected(session.fail(reply.error()));
  if (!reply->ok()) return tl::unexpected(session.fail(*reply));
  const auto who = Answer::parse(reply->body);
  if (!who) return tl::unexpected(session.fail(who.error()));
  return fmt::format("{} is {}, in namespace {}", context.name, (*who)["kubernetesUser"].text(),
                     (*who)["namespace"].text());
}

Result<int> add_one(const Session& session, AddArguments arguments) {
  ServerContext& one = arguments.context;
  DIVVY_RETURN_IF_ERROR(model::check_name("context", one.name));
  if (one.name == "local") {
    return err(ErrorCode::kInvalidArgument, "local is this machine's own");
  }
  const bool names_cluster =
      !one.kubeconfig.empty() || !one.kube_context.empty() || !one.space.empty();
  if (arguments.kube || names_cluster) {
    if (!one.server.empty() || !one.ca.empty() || !one.token_file.empty()) {
      return err(ErrorCode::kInvalidArgument,
                 "a cluster (--kube) has its address and its authorities in the kubeconfig; leave "
                 "--at, --ca and --token-file out");
    }
    DIVVY_TRY(file, find_kubeconfig(session.terminal.environment, one.kubeconfig));
    one.kubeconfig = std::move(file);
    const auto who = try_cluster(session, one);
    if (!who) return who.error();
    session.say(*who);
  } else if (one.server.empty()) {
    return err(ErrorCode::kInvalidArgument,
               "say where it is: --at https://HOST:PORT, or --kube for a cluster");
  }
  one.ca = absolute(one.ca);
  one.token_file = absolute(one.token_file);
  return change(
      session,
      [&](ClientConfig& config) -> Status {
        if (ServerContext* old = config.find(one.name)) {
          *old = one;
        } else {
          config.contexts.push_back(one);
        }
        return {};
      },
      "next: divvy context use " + one.name);
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
  auto added = std::make_shared<AddArguments>();
  CLI::App* add =
      tree.add_below(*context, "add", "Add a context, or change one", "",
                     [added](const Session& session) { return add_one(session, *added); });
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
  for (CLI::App* command : {use, remove}) {
    command->add_option("CONTEXT", one->name, "Its name")->required();
  }
  ServerContext& context_added = added->context;
  add->add_option("CONTEXT", context_added.name, "Its name")->required();
  add->add_option("--at", context_added.server, "https://HOST:PORT or unix:PATH")->type_name("URL");
  add->add_option("--ca", context_added.ca,
                  "Authorities to believe, in a PEM file (this machine's)")
      ->type_name("FILE");
  add->add_option("--token-file", context_added.token_file,
                  "A file with a token, that only you can read")
      ->type_name("FILE");
  add->add_flag("--kube", added->kube, "A Kubernetes cluster with Divvy, as kubectl reaches it");
  add->add_option("--kubeconfig", context_added.kubeconfig,
                  "With --kube: the file (KUBECONFIG, or ~/.kube/config)")
      ->type_name("FILE");
  add->add_option("--kube-context", context_added.kube_context,
                  "With --kube: a context of that file (its current one, whatever that is then)")
      ->type_name("CONTEXT");
  add->add_option("-n,--namespace", context_added.space,
                  "With --kube: where jobs go (as the kubeconfig has it)")
      ->type_name("NAMESPACE");
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
  if (words[2] == "kubeconfig") return &context->kubeconfig;
  if (words[2] == "kube_context") return &context->kube_context;
  if (words[2] == "namespace") return &context->space;
  return words[2] == "token_file" ? &context->token_file : nullptr;
}

Error no_setting(const std::string& key) {
  return {ErrorCode::kNotFound, fmt::format("there is no setting {}; there are context, queue and "
                                            "contexts.NAME.server, .ca, .token_file, .kubeconfig, "
                                            ".kube_context and .namespace",
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
  tree.may_be_empty(*set->add_option("VALUE", arguments->value, "Empty takes it away")->required());
}

}  // namespace

void add_context_commands(CommandTree& tree) {
  add_context(tree);
  add_config(tree);
}

}  // namespace divvy::cli
