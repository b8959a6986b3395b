#include "cli/session.h"

#include <fmt/format.h>

#include <ostream>

#include "cli/exit_codes.h"

namespace divvy::cli {

Result<Daemon> Session::daemon() const {
  DIVVY_TRY(server, choose_server(choice, terminal.environment));
  Daemon::Options options = services.daemon;
  if (server.target) options.remote = std::move(server.target);
  if (server.cluster) {
    if (!services.cluster) {
      return divvy::err(ErrorCode::kUnsupported,
                        "the context {} is a cluster, and this divvy was built without Kubernetes; "
                        "build it with DIVVY_KUBERNETES=ON, or add --context local",
                        server.cluster->name);
    }
    DIVVY_TRY(cluster, services.cluster(*server.cluster));
    options.cluster = std::move(cluster);
  }
  options.token = std::move(server.token);
  return Daemon(std::move(options));
}

WallTime Session::now() const {
  if (services.now) return services.now();
  return std::chrono::time_point_cast<Duration>(std::chrono::system_clock::now());
}

int Session::print(const std::string& text) const {
  out << text << std::flush;
  if (out) return kExitOk;
  err << "divvy: standard output could not be written\n";
  return kExitError;
}

int Session::fail(const Error& error) const {
  err << "divvy: " << error.message << "\n";
  if (error.code == ErrorCode::kNotFound) return kExitNotFound;
  return error.code == ErrorCode::kPermissionDenied ? kExitDenied : kExitError;
}

int Session::fail(const Reply& reply) const {
  err << "divvy: " << problem_text(reply) << "\n";
  return problem_exit(reply);
}

void Session::say(const std::string& chatter) const { err << "divvy: " << chatter << "\n"; }

Asked ask(const Session& session, const std::string& method, const std::string& path,
          const std::string& body, const net::HttpHeaders& headers) {
  const auto daemon = session.daemon();
  if (!daemon) return Asked(session.fail(daemon.error()));
  const auto reply =
      daemon->ask({.method = method, .path = path, .body = body, .headers = headers});
  if (!reply) return Asked(session.fail(reply.error()));
  if (!reply->ok()) return Asked(session.fail(*reply));
  auto answer = Answer::parse(reply->body);
  if (!answer) return Asked(session.fail(answer.error()));
  return {*std::move(answer), reply->body};
}

std::string escape_for_url(std::string_view text) {
  std::string result;
  for (const char c : text) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                       c == '-' || c == '_' || c == '.';
    result += plain ? std::string(1, c) : fmt::format("%{:02X}", static_cast<unsigned char>(c));
  }
  return result;
}

std::string write_query(const QueryParts& parts) {
  std::string query;
  for (const auto& [name, value] : parts) {
    if (value.empty()) continue;
    query += (query.empty() ? "?" : "&") + name + "=" + escape_for_url(value);
  }
  return query;
}

}  // namespace divvy::cli
