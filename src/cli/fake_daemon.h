// A divvyd for tests of the commands: answers what it was told to, on a socket of its own, and
// remembers what it was asked.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <functional>
#include <map>
#include <mutex>
#include <sstream>
#include <string>
#include <vector>

#include "base/check.h"
#include "base/temporary_folder.h"
#include "cli/app.h"
#include "net/http.h"

namespace divvy::cli {

class FakeDaemon {
 public:
  using Responder = std::function<net::HttpResponse(const net::HttpRequest&)>;

  FakeDaemon() {
    auto server = net::HttpServer::create(
        {.socket = socket(), .network = {}},
        [this](const net::HttpRequest& request, const net::Caller&) { return answer(request); });
    DIVVY_CHECK(server.has_value(), "{}", server.error().message);
    server_ = *std::move(server);
  }
  ~FakeDaemon() { server_.reset(); }
  FakeDaemon(const FakeDaemon&) = delete;
  FakeDaemon& operator=(const FakeDaemon&) = delete;

  [[nodiscard]] std::filesystem::path socket() const { return folder_ / "api.sock"; }
  [[nodiscard]] const std::filesystem::path& folder() const { return folder_; }

  // For "GET /v1/jobs", without the query.
  void on(const std::string& what, std::string body, int status = 200) {
    on(what, [body = std::move(body), status](const net::HttpRequest&) {
      return net::HttpResponse{.status = status, .body = body};
    });
  }
  void on(const std::string& what, Responder responder) {
    const std::lock_guard lock(mutex_);
    responders_[what] = std::move(responder);
  }

  // "POST /v1/jobs?dry_run=true {...}" in order.
  [[nodiscard]] std::vector<std::string> asked() const {
    const std::lock_guard lock(mutex_);
    return asked_;
  }
  [[nodiscard]] std::string last_asked() const {
    const auto all = asked();
    return all.empty() ? "" : all.back();
  }

 private:
  net::HttpResponse answer(const net::HttpRequest& request) {
    Responder responder;
    {
      const std::lock_guard lock(mutex_);
      std::string line = request.method + " " + request.path;
      if (!request.query.empty()) line += "?" + request.query;
      if (!request.body.empty()) line += " " + request.body;
      asked_.push_back(line);
      const auto found = responders_.find(request.method + " " + request.path);
      if (found != responders_.end()) responder = found->second;
    }
    if (responder) return responder(request);
    return {.status = 404, .body = R"({"detail":"there is no such thing"})"};
  }

  TemporaryFolder folder_;
  mutable std::mutex mutex_;
  std::map<std::string, Responder> responders_;
  std::vector<std::string> asked_;
  std::unique_ptr<net::HttpServer> server_;
};

struct CliOutcome {
  int status = 0;
  std::string out;
  std::string err;
};

// 2026-11-15T12:00:00Z, whenever the test runs.
inline constexpr std::int64_t kTestNow = 1'794'744'000'000;

inline CliOutcome run_divvy(const std::vector<std::string>& arguments,
                            const std::filesystem::path& socket,
                            const std::map<std::string, std::string>& environment = {}) {
  Terminal terminal;
  terminal.environment = [&](const char* name) -> std::optional<std::string> {
    const auto found = environment.find(name);
    if (found == environment.end()) return std::nullopt;
    return found->second;
  };
  Services services{.version = "1.2.3", .inventory = {}};
  services.daemon.socket = socket;
  services.daemon.may_start = false;
  services.now = [] { return WallTime(std::chrono::milliseconds(kTestNow)); };
  std::ostringstream out;
  std::ostringstream err;
  const int status = run(arguments, services, terminal, out, err);
  return {status, out.str(), err.str()};
}

}  // namespace divvy::cli
