#include "cli/app_template.h"

#include <algorithm>
#include <array>
#include <boost/json.hpp>

#include "base/text.h"
#include "config/yaml_reader.h"
#include "model/name.h"
#include "model/publish_variable.h"

namespace divvy::cli {
namespace {

namespace json = boost::json;
using config::YamlNode;

struct Field {
  std::string_view name;
  std::string AppTemplate::* value;
};
constexpr std::array kFields{
    Field{"summary", &AppTemplate::summary}, Field{"program", &AppTemplate::program},
    Field{"install", &AppTemplate::install}, Field{"run", &AppTemplate::run},
    Field{"ready", &AppTemplate::ready},     Field{"open", &AppTemplate::open},
    Field{"login", &AppTemplate::login},     Field{"gpu", &AppTemplate::gpu}};
constexpr std::string_view kEnvironment = "environment";

// Collects what is wrong, each with its place.
class Reader {
 public:
  Reader(AppTemplate& app, const std::string& file) : app_(app), file_(file) {}

  void read(const YamlNode& root) {
    if (root.kind != YamlNode::Kind::kMap) {
      return trouble(root.at, "an app has fields, like run: exec my-app --port={port}");
    }
    for (std::size_t i = 0; i < root.keys.size(); ++i) read_field(root.keys[i], root.items[i]);
    if (app_.run.empty() && troubles_.empty()) {
      trouble(root.at, "the field run is missing: the line that sh executes");
    }
  }
  void trouble(const config::Place& at, std::string_view what) {
    if (!troubles_.empty()) troubles_ += '\n';
    troubles_ += at.line == 0 ? fmt::format("{}: {}", file_, what)
                              : fmt::format("{}:{}:{}: {}", file_, at.line, at.column, what);
  }
  [[nodiscard]] const std::string& troubles() const { return troubles_; }

 private:
  void read_field(const config::YamlKey& key, const YamlNode& value) {
    if (key.text == kEnvironment) return read_environment(value);
    const auto* const field = std::ranges::find(kFields, key.text, &Field::name);
    if (field == kFields.end()) return unknown(key);
    if (value.kind != YamlNode::Kind::kWord) {
      return trouble(value.at, fmt::format("{}: this has to be a text", key.text));
    }
    const bool is_path = field->name == "ready" || field->name == "open";
    const auto is_control = [](unsigned char byte) { return byte < ' ' || byte == 0x7f; };
    if (is_path && (!value.word.starts_with('/') || std::ranges::any_of(value.word, is_control) ||
                    value.word.find(' ') != std::string::npos)) {
      return trouble(value.at,
                     fmt::format("{}: a path of HTTP begins with / and has no spaces", key.text));
    }
    app_.*(field->value) = value.word;
  }

  void read_environment(const YamlNode& value) {
    if (value.kind != YamlNode::Kind::kMap) {
      return trouble(value.at, "environment: this has names and texts, like NAME: text");
    }
    for (std::size_t i = 0; i < value.keys.size(); ++i) {
      if (value.items[i].kind == YamlNode::Kind::kWord) {
        app_.environment[value.keys[i].text] = value.items[i].word;
      } else {
        trouble(value.items[i].at,
                fmt::format("environment.{}: this has to be a text",
                            escape_for_terminal(value.keys[i].text.substr(0, 60))));
      }
    }
  }

  void unknown(const config::YamlKey& key) {
    std::vector<std::string_view> known{kEnvironment};
    for (const Field& field : kFields) known.push_back(field.name);
    const auto meant = did_you_mean(key.text, known);
    trouble(key.at,
            fmt::format("an app has no field {}{}", escape_for_terminal(key.text.substr(0, 60)),
                        meant ? fmt::format("; did you mean {}?", *meant) : ""));
  }

  AppTemplate& app_;
  const std::string& file_;
  std::string troubles_;
};

constexpr std::string_view kToken = "{token}";

std::string replaced(std::string text, std::string_view from, std::string_view to) {
  for (std::size_t at = 0; (at = text.find(from, at)) != std::string::npos; at += to.size()) {
    text.replace(at, from.size(), to);
  }
  return text;
}

// As one word of sh, whatever is in it.
std::string quoted(const std::string& text) { return "'" + replaced(text, "'", "'\\''") + "'"; }

json::object& object_in(json::object& document, std::string_view field) {
  json::value& value = document[field];
  if (!value.is_object()) value = json::object();
  return value.as_object();
}

std::string script_of(const AppTemplate& app, const AppLaunch& launch) {
  std::string script;
  if (!app.program.empty()) {
    const std::string missing =
        fmt::format("{} is not there{}{}", app.program, app.install.empty() ? "" : "; get it with ",
                    app.install);
    script = fmt::format("command -v {} >/dev/null 2>&1 || {{ echo {} >&2; exit 127; }}\n",
                         quoted(app.program), quoted(missing));
  }
  const bool published = launch.published.has_value();
  const std::string port =
      published || launch.in_pod ? fmt::to_string(kContainerPort) : "$DIVVY_PORT";
  return script + replaced(replaced(app.run, "{port}", port), "{address}",
                           published ? "0.0.0.0" : "127.0.0.1");
}

}  // namespace

Result<AppTemplate> read_app(std::string_view text, const std::string& name,
                             const std::string& file) {
  AppTemplate app;
  app.name = name;
  Reader reader(app, file);
  if (const Status good = model::check_name("app", name); !good) {
    reader.trouble({}, good.error().message);
  }
  const config::YamlDocument yaml = config::read_yaml(text);
  for (const config::Problem& problem : yaml.problems) reader.trouble(problem.at, problem.what);
  if (yaml.problems.empty()) reader.read(yaml.root);
  if (!reader.troubles().empty()) return err(ErrorCode::kInvalidArgument, "{}", reader.troubles());
  return app;
}

const std::vector<AppTemplate>& built_in_apps() {
  static const std::vector<AppTemplate> kApps{
      {.name = "jupyter",
       .summary = "JupyterLab: notebooks in a browser",
       .program = "jupyter-lab",
       .install = "pip install jupyterlab",
       .run = "[ \"$(id -u)\" != 0 ] || set -- --allow-root \"$@\"\n"
              "exec jupyter-lab --no-browser --ip={address} --port={port} "
              "--ServerApp.port_retries=0 \"$@\"",
       .environment = {{"JUPYTER_TOKEN", "{token}"}},
       .ready = "/api",
       .open = "/lab?token={token}",
       .login = "",
       .gpu = "0.1"},
      {.name = "code",
       .summary = "code-server: an editor in a browser",
       .program = "code-server",
       .install = "npm install --global code-server",
       .run = "exec code-server --auth password --bind-addr {address}:{port} --disable-telemetry "
              "--disable-update-check \"$@\"",
       .environment = {{"PASSWORD", "{token}"}},
       .ready = "/healthz",
       .open = "/",
       .login = "password {token}",
       .gpu = "0.1"},
      {.name = "tensorboard",
       .summary = "TensorBoard: curves in a browser (-- --logdir FOLDER); asks nobody who they are",
       .program = "tensorboard",
       .install = "pip install tensorboard",
       .run = "[ $# -gt 0 ] || set -- --logdir .\n"
              "exec tensorboard --host {address} --port {port} \"$@\"",
       .environment = {},
       .ready = "/data/environment",
       .open = "/",
       .login = ""},
      {.name = "shell",
       .summary = "A shell in a terminal",
       .program = "",
       .install = "",
       .run = "exec sleep 2147483647",
       .environment = {},
       .ready = "",
       .open = "",
       .login = "",
       .gpu = "0.1"}};
  return kApps;
}

Apps find_apps(const TemplateFolders& folders) {
  TemplateFiles files = read_template_files(folders);
  Apps apps;
  apps.troubles = std::move(files.troubles);
  for (const TemplateFile& file : files.files) {
    auto app = read_app(file.text, file.name, file.path);
    if (app) {
      apps.by_name.emplace(file.name, *std::move(app));
    } else {
      apps.troubles.push_back(app.error().message);
    }
  }
  for (const AppTemplate& app : built_in_apps()) apps.by_name.emplace(app.name, app);
  return apps;
}

Status put_app(const AppTemplate& app, const AppLaunch& launch, json::object& document) {
  if (!launch.arguments.empty() && app.run.find("\"$@\"") == std::string::npos) {
    return err(ErrorCode::kInvalidArgument, "the app {} takes no arguments", app.name);
  }
  const bool contained = launch.published.has_value() || launch.in_pod;
  json::array command{"sh", "-c", json::string(script_of(app, launch)), json::string(app.name)};
  for (const std::string& word : launch.arguments) command.push_back(json::string(word));
  if (contained) {
    json::object& container = object_in(document, "container");
    // The image's own entry point is another program.
    container.emplace("entry_point", json::array{"sh"});
    command.erase(command.begin());
    if (app.is_web() && launch.published) {
      json::value& ports = container["ports"];
      if (!ports.is_array()) ports = json::array();
      ports.as_array().push_back(
          json::object{{"host", *launch.published}, {"container", kContainerPort}});
    }
  }
  document["command"] = std::move(command);
  json::object& environment = object_in(document, "environment");
  for (const auto& [name, value] : app.environment) {
    environment.emplace(name, with_token(value, launch.token));
  }
  environment[kSessionToken] = launch.token;
  // It is reached through divvyd, and some apps ask nobody who they are.
  if (launch.published) environment[model::kPublishVariable] = model::kPublishLoopback;
  json::object& labels = object_in(document, "labels");
  labels[kSessionLabel] = app.name;
  if (contained) labels[kSessionPortLabel] = fmt::to_string(kContainerPort);
  document.emplace("name", app.name);
  if (!document.contains("gpu") && !document.contains("gpu_memory")) document["gpu"] = app.gpu;
  return {};
}

std::string with_token(std::string text, std::string_view token) {
  return replaced(std::move(text), kToken, token);
}

}  // namespace divvy::cli
