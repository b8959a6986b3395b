#include "kube/kubeconfig.h"

#include <yaml-cpp/yaml.h>

#include <optional>

#include "base/base64.h"

namespace divvy::kube {
namespace {

constexpr std::size_t kMaxBytes = 4U << 20U;

// The scalar of that name; nothing for whatever else stands there.
std::string scalar(const YAML::Node& node, const char* name) {
  if (!node.IsMap()) return {};
  const YAML::Node value = node[name];
  return value.IsDefined() && value.IsScalar() ? value.Scalar() : std::string();
}

bool has(const YAML::Node& node, const char* name) {
  if (!node.IsMap()) return false;
  const YAML::Node value = node[name];
  return value.IsDefined() && !value.IsNull();
}

// `name`, or `name`-data with the text itself; the latter wins, as kubectl has it.
Result<TextOrFile> text_or_file(const YAML::Node& node, const std::string& name) {
  const std::string data = scalar(node, (name + "-data").c_str());
  if (data.empty()) return TextOrFile{{}, scalar(node, name.c_str())};
  auto decoded = decode_base64(data);
  if (!decoded || decoded->empty()) {
    return err(ErrorCode::kInvalidArgument, "{}-data is no base64", name);
  }
  return TextOrFile{*std::move(decoded), {}};
}

// The entry of that name in a list of {name, <what>}.
Result<YAML::Node> entry(const YAML::Node& root, const char* list, const char* what,
                         const std::string& name) {
  const YAML::Node entries = root[list];
  if (entries.IsDefined() && entries.IsSequence()) {
    for (const YAML::Node& one : entries) {
      if (scalar(one, "name") == name && has(one, what)) return one[what];
    }
  }
  return err(ErrorCode::kNotFound, "there is no {} '{}' in it", what, name);
}

Status refuse_user(const YAML::Node& user) {
  if (has(user, "exec")) {
    return err(ErrorCode::kUnsupported,
               "its user runs a program for every token (exec), which Divvy does not; give it a "
               "service account's token, or a client certificate");
  }
  if (has(user, "auth-provider")) {
    return err(ErrorCode::kUnsupported,
               "its user has an auth-provider, which Kubernetes itself removed; use a service "
               "account's token, or a client certificate");
  }
  if (has(user, "username") || has(user, "password")) {
    return err(ErrorCode::kUnsupported,
               "its user has a password, which no API server takes any more; use a service "
               "account's token, or a client certificate");
  }
  if (has(user, "as") || has(user, "as-groups") || has(user, "as-user-extra")) {
    return err(ErrorCode::kUnsupported, "its user acts as another one, which Divvy does not do");
  }
  return {};
}

Status refuse_cluster(const YAML::Node& cluster) {
  const std::string insecure = scalar(cluster, "insecure-skip-tls-verify");
  if (!insecure.empty() && insecure != "false") {
    return err(ErrorCode::kUnsupported,
               "insecure-skip-tls-verify would hand Divvy's credentials to whoever answers there; "
               "name the cluster's certificate-authority instead");
  }
  if (has(cluster, "proxy-url")) {
    return err(ErrorCode::kUnsupported, "it names a proxy-url, which Divvy does not use");
  }
  return {};
}

Result<Kubeconfig> read(const YAML::Node& root, const std::string& wanted) {
  if (!root.IsMap()) return err(ErrorCode::kInvalidArgument, "it is no kubeconfig");
  Kubeconfig config;
  config.context = wanted.empty() ? scalar(root, "current-context") : wanted;
  if (config.context.empty()) {
    return err(ErrorCode::kInvalidArgument, "it has no current-context; name one");
  }
  DIVVY_TRY(context, entry(root, "contexts", "context", config.context));
  DIVVY_TRY(cluster, entry(root, "clusters", "cluster", scalar(context, "cluster")));
  DIVVY_RETURN_IF_ERROR(refuse_cluster(cluster));
  config.server = scalar(cluster, "server");
  if (config.server.empty()) {
    return err(ErrorCode::kInvalidArgument, "the cluster '{}' has no server",
               scalar(context, "cluster"));
  }
  config.tls_server_name = scalar(cluster, "tls-server-name");
  DIVVY_TRY(authority, text_or_file(cluster, "certificate-authority"));
  config.authority = std::move(authority);
  config.space = scalar(context, "namespace");
  if (config.space.empty()) config.space = "default";
  const std::string user_name = scalar(context, "user");
  if (user_name.empty()) return config;
  DIVVY_TRY(user, entry(root, "users", "user", user_name));
  DIVVY_RETURN_IF_ERROR(refuse_user(user));
  DIVVY_TRY(certificate, text_or_file(user, "client-certificate"));
  DIVVY_TRY(key, text_or_file(user, "client-key"));
  if (certificate.empty() != key.empty()) {
    return err(ErrorCode::kInvalidArgument,
               "the user '{}' has one of client-certificate and client-key, and needs both",
               user_name);
  }
  config.certificate = std::move(certificate);
  config.key = std::move(key);
  // A file wins over a text, as kubectl has it: it may be renewed.
  config.token.file = scalar(user, "tokenFile");
  if (config.token.file.empty()) config.token.text = scalar(user, "token");
  return config;
}

}  // namespace

Result<Kubeconfig> parse_kubeconfig(std::string_view text, const std::string& context) {
  if (text.size() > kMaxBytes) {
    return err(ErrorCode::kInvalidArgument, "it is larger than any kubeconfig ({} bytes)",
               text.size());
  }
  try {
    return read(YAML::Load(std::string(text)), context);
  } catch (const YAML::Exception& error) {
    // The message of the library may quote what it read.
    return err(ErrorCode::kInvalidArgument, "line {} is no YAML", error.mark.line + 1);
  }
}

}  // namespace divvy::kube
