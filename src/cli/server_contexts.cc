#include "cli/server_contexts.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <sstream>

#include "base/text.h"
#include "base/unique_fd.h"
#include "config/yaml_reader.h"
#include "model/name.h"

namespace divvy::cli {
namespace {

namespace fs = std::filesystem;
using config::Problem;
using config::YamlNode;

// Reads the words of a map into places, and notes what does not belong there.
class MapReader {
 public:
  MapReader(const YamlNode& map, std::vector<Problem>& problems) : map_(map), problems_(problems) {
    if (map.kind != YamlNode::Kind::kMap && map.kind != YamlNode::Kind::kNothing) {
      problems_.push_back({map.at, "this has to be fields with names"});
    }
  }

  const YamlNode* node(std::string_view name) {
    known_.emplace_back(name);
    for (std::size_t i = 0; i < map_.keys.size(); ++i) {
      if (map_.keys[i].text == name) return &map_.items[i];
    }
    return nullptr;
  }

  void word(std::string_view name, std::string& into) {
    const YamlNode* found = node(name);
    if (found == nullptr || found->kind == YamlNode::Kind::kNothing) return;
    if (found->kind != YamlNode::Kind::kWord) {
      problems_.push_back({found->at, fmt::format("{} has to be text", name)});
      return;
    }
    into = found->word;
  }

  void finish() {
    for (const config::YamlKey& key : map_.keys) {
      if (std::ranges::find(known_, key.text) != known_.end()) continue;
      const auto meant = did_you_mean(key.text, std::span<const std::string>(known_));
      problems_.push_back(
          {key.at, fmt::format("there is no field {}{}", escape_for_terminal(key.text),
                               meant ? "; did you mean " + *meant + "?" : "")});
    }
  }

 private:
  const YamlNode& map_;
  std::vector<Problem>& problems_;
  std::vector<std::string> known_;
};

ServerContext read_context(const config::YamlKey& key, const YamlNode& node,
                           std::vector<Problem>& problems) {
  ServerContext context;
  context.name = key.text;
  if (const Status named = model::check_name("context", key.text); !named) {
    problems.push_back({key.at, named.error().message});
  }
  MapReader reader(node, problems);
  reader.word("server", context.server);
  reader.word("ca", context.ca);
  reader.word("token_file", context.token_file);
  reader.word("kubeconfig", context.kubeconfig);
  reader.word("kube_context", context.kube_context);
  reader.word("namespace", context.space);
  reader.finish();
  if (context.is_cluster()) {
    if (!context.server.empty()) {
      problems.push_back({key.at, "a context has a server or a kubeconfig, not both"});
    }
    return context;
  }
  if (context.server.empty()) {
    problems.push_back({key.at, "a context has a server, like https://gpu.example:7443"});
  } else if (const auto target = parse_server(context.server, context.ca); !target) {
    problems.push_back({node.at, target.error().message});
  }
  return context;
}

// As YAML reads it back, whatever is in it.
std::string quoted(const std::string& text) {
  std::string line = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') line += '\\';
    line += c;
  }
  return line + "\"";
}

bool is_loopback(const std::string& host) {
  return host == "localhost" || host == "::1" || host.starts_with("127.");
}

Result<std::string> read_token(const fs::path& file) {
  struct stat info{};
  if (::stat(file.c_str(), &info) != 0) {
    return err(ErrorCode::kNotFound, "the token file {}: {}", file.string(), std::strerror(errno));
  }
  if ((info.st_mode & 077U) != 0) {
    return err(ErrorCode::kPermissionDenied,
               "the token file {} can be read by others; chmod 600 it, or make a new token",
               file.string());
  }
  std::ifstream stream(file);
  std::string token;
  std::getline(stream, token);
  return std::string(trim(token));
}

}  // namespace

ServerContext* ClientConfig::find(std::string_view name) {
  const auto found = std::ranges::find(contexts, name, &ServerContext::name);
  return found == contexts.end() ? nullptr : &*found;
}

const ServerContext* ClientConfig::find(std::string_view name) const {
  const auto found = std::ranges::find(contexts, name, &ServerContext::name);
  return found == contexts.end() ? nullptr : &*found;
}

Result<ClientConfig> read_client_config(std::string_view text, const std::string& file) {
  config::YamlDocument document = config::read_yaml(text);
  std::vector<Problem> problems = std::move(document.problems);
  ClientConfig read;
  MapReader reader(document.root, problems);
  reader.word("context", read.context);
  reader.word("queue", read.queue);
  const YamlNode* contexts = reader.node("contexts");
  reader.finish();
  if (contexts != nullptr && contexts->kind == YamlNode::Kind::kMap) {
    for (std::size_t i = 0; i < contexts->keys.size(); ++i) {
      read.contexts.push_back(read_context(contexts->keys[i], contexts->items[i], problems));
    }
  } else if (contexts != nullptr && contexts->kind != YamlNode::Kind::kNothing) {
    problems.push_back({contexts->at, "contexts has to be fields with names"});
  }
  if (problems.empty()) return read;
  std::ranges::sort(problems);
  std::string lines;
  for (const Problem& problem : problems) {
    if (!lines.empty()) lines += "\n";
    lines += fmt::format("{}:{}:{}: {}", file, problem.at.line, problem.at.column, problem.what);
  }
  return err(ErrorCode::kInvalidArgument, "{}", lines);
}

std::string write_client_config(const ClientConfig& config) {
  std::string text;
  if (!config.context.empty()) text += "context: " + quoted(config.context) + "\n";
  if (!config.queue.empty()) text += "queue: " + quoted(config.queue) + "\n";
  if (!config.contexts.empty()) text += "contexts:\n";
  for (const ServerContext& context : config.contexts) {
    text += fmt::format("  {}:\n", quoted(context.name));
    const auto add = [&text](const char* field, const std::string& value) {
      if (!value.empty()) text += fmt::format("    {}: {}\n", field, quoted(value));
    };
    add("server", context.server);
    add("ca", context.ca);
    add("token_file", context.token_file);
    add("kubeconfig", context.kubeconfig);
    add("kube_context", context.kube_context);
    add("namespace", context.space);
  }
  return text;
}

Result<fs::path> client_config_file(const Environment& environment) {
  const auto value = [&](const char* name) { return environment(name).value_or(""); };
  if (const std::string file = value("DIVVY_CONFIG"); !file.empty()) return fs::path(file);
  if (const std::string folder = value("XDG_CONFIG_HOME"); !folder.empty()) {
    return fs::path(folder) / "divvy/config.yaml";
  }
  if (const std::string home = value("HOME"); !home.empty()) {
    return fs::path(home) / ".config/divvy/config.yaml";
  }
  return err(ErrorCode::kNotFound, "there is no HOME to have a file of contexts in; set HOME");
}

Result<ClientConfig> load_client_config(const Environment& environment) {
  const auto file = client_config_file(environment);
  if (!file) return ClientConfig{};
  std::error_code code;
  if (!fs::exists(*file, code)) return ClientConfig{};
  std::ifstream stream(*file);
  std::stringstream text;
  text << stream.rdbuf();
  if (!stream) return err(ErrorCode::kIo, "{} could not be read", file->string());
  return read_client_config(text.str(), file->string());
}

Status save_client_config(const Environment& environment, const ClientConfig& config) {
  DIVVY_TRY(file, client_config_file(environment));
  std::error_code code;
  if (!file.parent_path().empty()) fs::create_directories(file.parent_path(), code);
  const fs::path fresh = file.string() + ".new";
  const auto failed = [&](const char* what) {
    return err(ErrorCode::kIo, "{}: {}: {}", fresh.string(), what, std::strerror(errno));
  };
  UniqueFd fd(::open(fresh.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600));
  if (!fd) return failed("it cannot be written");
  const std::string text = write_client_config(config);
  if (::fchmod(fd.get(), 0600) != 0 ||
      ::write(fd.get(), text.data(), text.size()) != static_cast<ssize_t>(text.size()) ||
      ::fsync(fd.get()) != 0 || ::rename(fresh.c_str(), file.c_str()) != 0) {
    return failed("it was not written");
  }
  return {};
}

Result<net::HttpTarget> parse_server(std::string_view text, const fs::path& ca) {
  constexpr std::string_view kUnix = "unix:";
  constexpr std::string_view kHttp = "http://";
  constexpr std::string_view kHttps = "https://";
  net::HttpTarget target;
  if (text.starts_with(kUnix) && text.size() > kUnix.size()) {
    target.socket = text.substr(kUnix.size());
    return target;
  }
  const bool secure = text.starts_with(kHttps);
  if (!secure && !text.starts_with(kHttp)) {
    return err(ErrorCode::kInvalidArgument,
               "\"{}\" is no server; write https://HOST:PORT or unix:PATH",
               escape_for_terminal(text.substr(0, 100)));
  }
  std::string_view address = text.substr(secure ? kHttps.size() : kHttp.size());
  while (address.ends_with('/')) address.remove_suffix(1);
  DIVVY_TRY(parsed, net::TcpAddress::parse(address));
  if (parsed.host.empty()) {
    return err(ErrorCode::kInvalidArgument, "\"{}\" names no host", escape_for_terminal(text));
  }
  target.network = std::move(parsed);
  if (secure) target.tls = net::TlsTrust{.authorities = ca, .name = {}};
  return target;
}

Status check_keeps_secrets(const net::HttpTarget& target) {
  if (!target.network || target.tls || is_loopback(target.network->host)) return {};
  return err(ErrorCode::kFailedPrecondition,
             "a token would travel to {} for everybody to read; use https://",
             target.network->host);
}

Result<ChosenServer> choose_server(const ServerChoice& choice, const Environment& environment) {
  ChosenServer chosen;
  chosen.token = environment("DIVVY_TOKEN").value_or("");
  const auto server = choice.server ? choice.server : environment("DIVVY_SERVER");
  // An option names a server or a context; either goes before both variables.
  if (server && !server->empty() && !(choice.context && !choice.server)) {
    DIVVY_TRY(target, parse_server(*server, environment("DIVVY_CA").value_or("")));
    chosen.target = std::move(target);
  } else {
    DIVVY_TRY(config, load_client_config(environment));
    const auto asked = choice.context ? choice.context : environment("DIVVY_CONTEXT");
    const std::string name = asked && !asked->empty() ? *asked : config.context;
    if (!name.empty() && name != "local") {
      const ServerContext* context = config.find(name);
      if (context == nullptr) {
        return err(ErrorCode::kNotFound, "there is no context {}; `divvy context list` shows them",
                   escape_for_terminal(name));
      }
      if (context->is_cluster()) {
        chosen.cluster = *context;
        return chosen;
      }
      DIVVY_TRY(target, parse_server(context->server, context->ca));
      chosen.target = std::move(target);
      if (chosen.token.empty() && !context->token_file.empty()) {
        DIVVY_TRY(token, read_token(context->token_file));
        chosen.token = std::move(token);
      }
    }
  }
  if (!chosen.token.empty() && chosen.target) {
    DIVVY_RETURN_IF_ERROR(check_keeps_secrets(*chosen.target));
  }
  return chosen;
}

}  // namespace divvy::cli
