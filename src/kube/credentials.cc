#include "kube/credentials.h"

#include <sys/stat.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <sstream>
#include <utility>

#include "base/log.h"
#include "base/text.h"
#include "kube/kubeconfig.h"

namespace divvy::kube {
namespace {

constexpr std::size_t kMaxFile = 4U << 20U;

Result<std::string> read_file(const std::filesystem::path& path) {
  std::string text(kMaxFile + 1, '\0');
  errno = 0;
  std::ifstream file(path, std::ios::binary);
  if (file) file.read(text.data(), static_cast<std::streamsize>(text.size()));
  if (!file && !file.eof()) {
    const int number = errno;
    return err(number == ENOENT ? ErrorCode::kNotFound : ErrorCode::kIo, "{}: {}", path.string(),
               number == 0 ? "cannot be read" : std::strerror(number));
  }
  text.resize(static_cast<std::size_t>(file.gcount()));
  if (text.size() > kMaxFile) {
    return err(ErrorCode::kInvalidArgument, "{} is too large", path.string());
  }
  return text;
}

Result<std::string> resolve(const TextOrFile& source, const std::filesystem::path& folder) {
  if (source.file.empty()) return source.text;
  return read_file(folder / source.file);
}

// A line end would end the header, and what follows would be another one.
Result<std::string> check_token(std::string_view text) {
  const std::string_view token = trim(text);
  if (token.empty()) return err(ErrorCode::kInvalidArgument, "the token is empty");
  for (const char c : token) {
    if (c <= ' ' || c > '~') {
      return err(ErrorCode::kInvalidArgument, "the token has characters that no token has");
    }
  }
  return std::string(token);
}

struct Server {
  net::TcpAddress address;
  std::string prefix;
  bool secure = true;
};

// "https://host:6443/prefix".
Result<Server> parse_server(std::string_view text) {
  Server server;
  std::string_view rest = text;
  if (rest.starts_with("https://")) {
    rest.remove_prefix(8);
  } else if (rest.starts_with("http://")) {
    rest.remove_prefix(7);
    server.secure = false;
  } else {
    return err(ErrorCode::kInvalidArgument, "the server '{}' does not begin with https://", text);
  }
  const std::size_t slash = std::min(rest.find('/'), rest.size());
  std::string authority(rest.substr(0, slash));
  server.prefix = rest.substr(slash);
  while (server.prefix.ends_with('/')) server.prefix.pop_back();
  const std::size_t colon = authority.rfind(':');
  if (colon == std::string::npos || authority.ends_with(']')) {
    authority += server.secure ? ":443" : ":80";
  }
  auto address = net::TcpAddress::parse(authority);
  if (!address || address->host.empty() || address->port == 0) {
    return err(ErrorCode::kInvalidArgument, "the server '{}' is no address", text);
  }
  server.address = *std::move(address);
  return server;
}

net::HttpTarget target_of(const Server& server) {
  net::HttpTarget target{.socket = {}, .network = server.address};
  target.server = "Kubernetes API server";
  return target;
}

Result<Credentials> to_credentials(const Kubeconfig& config, const std::filesystem::path& folder) {
  DIVVY_TRY(server, parse_server(config.server));
  Credentials credentials{target_of(server), server.prefix, nullptr, config.space};
  if (!server.secure) {
    if (!config.token.empty() || !config.certificate.empty()) {
      return err(ErrorCode::kInvalidArgument,
                 "the server '{}' would get the credentials in the clear; use https",
                 config.server);
    }
    return credentials;
  }
  net::TlsTrust trust;
  trust.name = config.tls_server_name;
  DIVVY_TRY(authority, resolve(config.authority, folder));
  trust.authorities_pem = std::move(authority);
  if (!config.certificate.empty()) {
    DIVVY_TRY(certificate, resolve(config.certificate, folder));
    DIVVY_TRY(key, resolve(config.key, folder));
    trust.client = net::TlsClientIdentity{std::move(certificate), std::move(key)};
  }
  credentials.target.tls = std::move(trust);
  if (!config.token.file.empty()) {
    DIVVY_TRY(token, BearerToken::from_file(folder / config.token.file));
    credentials.token = std::move(token);
  } else if (!config.token.text.empty()) {
    DIVVY_TRY(token, check_token(config.token.text));
    credentials.token = std::make_shared<BearerToken>(std::move(token));
  }
  return credentials;
}

std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? std::string() : std::string(value);
}

}  // namespace

Result<std::shared_ptr<BearerToken>> BearerToken::from_file(std::filesystem::path file) {
  auto token = std::make_shared<BearerToken>(std::string());
  token->file_ = std::move(file);
  DIVVY_RETURN_IF_ERROR(token->read());
  return token;
}

std::optional<BearerToken::Stamp> BearerToken::stamp() const {
  struct stat status{};
  if (::stat(file_.c_str(), &status) != 0) return std::nullopt;
  return Stamp{status.st_mtim.tv_sec, status.st_mtim.tv_nsec, status.st_ino};
}

Status BearerToken::read() {
  const auto before = stamp();
  DIVVY_TRY(text, read_file(file_));
  DIVVY_TRY(token, with_context(check_token(text), file_.string()));
  token_ = std::move(token);
  read_at_ = before;
  return {};
}

std::string BearerToken::get() {
  const std::lock_guard lock(mutex_);
  if (!file_.empty() && stamp() != read_at_) {
    const Status status = read();
    if (!status) log_warning("token not read again", {{"reason", status.error().message}});
  }
  return token_;
}

Result<Credentials> load_kubeconfig(const std::filesystem::path& file, const std::string& context) {
  DIVVY_TRY(text, read_file(file));
  DIVVY_TRY(config, with_context(parse_kubeconfig(text, context), file.string()));
  return with_context(to_credentials(config, file.parent_path()), file.string());
}

PodSurroundings PodSurroundings::of_this_process() {
  PodSurroundings surroundings;
  surroundings.host = environment("KUBERNETES_SERVICE_HOST");
  surroundings.port = environment("KUBERNETES_SERVICE_PORT");
  return surroundings;
}

Result<Credentials> load_pod_credentials(const PodSurroundings& surroundings) {
  if (surroundings.host.empty() || surroundings.port.empty()) {
    return err(ErrorCode::kNotFound, "this is no pod: KUBERNETES_SERVICE_HOST is not set");
  }
  const bool bare_ipv6 = surroundings.host.find(':') != std::string::npos;
  DIVVY_TRY(server,
            parse_server(fmt::format(fmt::runtime(bare_ipv6 ? "https://[{}]:{}" : "https://{}:{}"),
                                     surroundings.host, surroundings.port)));
  Credentials credentials{target_of(server), {}, nullptr, "default"};
  DIVVY_TRY(authority, read_file(surroundings.folder / "ca.crt"));
  net::TlsTrust trust;
  trust.authorities_pem = std::move(authority);
  credentials.target.tls = std::move(trust);
  DIVVY_TRY(token, BearerToken::from_file(surroundings.folder / "token"));
  credentials.token = std::move(token);
  DIVVY_TRY(space, read_file(surroundings.folder / "namespace"));
  credentials.space = trim(space);
  return credentials;
}

Result<Credentials> find_credentials(const std::filesystem::path& kubeconfig,
                                     const std::string& context) {
  if (!kubeconfig.empty()) return load_kubeconfig(kubeconfig, context);
  if (const std::string named = environment("KUBECONFIG"); !named.empty()) {
    return load_kubeconfig(named, context);
  }
  const PodSurroundings surroundings = PodSurroundings::of_this_process();
  if (!surroundings.host.empty()) return load_pod_credentials(surroundings);
  const std::string home = environment("HOME");
  const std::filesystem::path usual = std::filesystem::path(home) / ".kube" / "config";
  if (!home.empty() && std::filesystem::exists(usual)) return load_kubeconfig(usual, context);
  return err(ErrorCode::kNotFound,
             "no Kubernetes cluster is known here: this is no pod, KUBECONFIG is not set, and "
             "there is no ~/.kube/config");
}

}  // namespace divvy::kube
