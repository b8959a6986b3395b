// The control side, put together: the store, the dispatcher, the routes of the API and its servers.
// Composition for `divvyd`.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "agent/agents.h"
#include "api/api.h"
#include "api/event_bell.h"
#include "api/people.h"
#include "api/use_history.h"
#include "base/clock.h"
#include "base/result.h"
#include "control/dispatcher.h"
#include "control/retention.h"
#include "control/schedules.h"
#include "control/services.h"
#include "jobs/settings.h"
#include "net/http.h"
#include "notify/notifier.h"
#include "proxy/haproxy.h"
#include "sign_in_parts.h"
#include "store/database.h"

namespace divvy {

struct ControlSettings {
  std::filesystem::path state;
  std::filesystem::path run;
  jobs::Settings queue;
  control::Retention::Rules retention;
  std::string address = "off";  // of the API for the network
  std::filesystem::path certificate;
  std::filesystem::path key;
  std::uint32_t max_rate = 100;
  bool console = true;  // served beside the API
  Duration keep_channels = std::chrono::minutes(10);
  std::string services_address = "127.0.0.1";  // where services listen
  notify::Notifier::Rules notifications;
  std::optional<SignInSettings> sign_in{};  // with a provider, beside tokens
  std::vector<api::SettingLine> shown{};    // all of the configuration, for who asks
};

class ControlSide {
 public:
  // Finds again what ran before. `agents` and `clock` outlive it.
  [[nodiscard]] static Result<std::unique_ptr<ControlSide>> create(const agent::Agents& agents,
                                                                   Clock& clock,
                                                                   ControlSettings settings);
  // Makes the store what it was in a backup, while no daemon runs.
  [[nodiscard]] static Status restore(const std::filesystem::path& state,
                                      const std::filesystem::path& backup);
  // Members run on.
  ~ControlSide();
  ControlSide(const ControlSide&) = delete;
  ControlSide& operator=(const ControlSide&) = delete;

  [[nodiscard]] control::Dispatcher& dispatcher() { return *dispatcher_; }
  // From any thread.
  [[nodiscard]] net::HttpResponse handle(const net::HttpRequest& request,
                                         const net::Caller& caller) const {
    return api_->handle(request, caller);
  }
  // The rules of a configuration that was read again.
  [[nodiscard]] Status change(const ControlSettings& settings);
  // The files of the certificate are read again; the old one stays where the new one is no good.
  void renew_certificate() const;
  // For the metrics; from any thread.
  [[nodiscard]] jobs::Load load() const { return dispatcher_->load(); }
  [[nodiscard]] DurationCounts passes() const { return dispatcher_->passes(); }
  [[nodiscard]] std::vector<control::VersionLoad> services() const { return services_->load(); }
  // Has the store forget what nobody needs any more; does not wait for it.
  void tidy() const;

 private:
  [[nodiscard]] Status serve_network();
  [[nodiscard]] net::HttpResponse handle_network(const net::HttpRequest& request,
                                                 const net::Caller& caller) const;
  [[nodiscard]] jobs::Settings configured() const;
  ControlSide(Clock& clock, ControlSettings settings);

  mutable std::mutex mutex_;  // of settings_.queue and settings_.shown
  ControlSettings settings_;
  const Clock& clock_;
  std::unique_ptr<store::Database> database_;
  std::unique_ptr<api::People> people_;
  api::EventBell bell_;
  std::unique_ptr<control::Secrets> secrets_;
  std::unique_ptr<notify::Notifier> notifier_;
  std::unique_ptr<control::Dispatcher> dispatcher_;
  std::unique_ptr<control::Retention> retention_;
  std::unique_ptr<proxy::Haproxy> proxy_;
  std::unique_ptr<control::Services> services_;
  std::unique_ptr<control::Schedules> schedules_;
  api::UseHistory history_;
  api::WhatIfDesk what_if_;
  std::unique_ptr<api::UseSampler> sampler_;
  std::unique_ptr<api::SignIn> sign_in_;  // null: only tokens let anybody in
  std::unique_ptr<api::Api> api_;
  std::unique_ptr<net::HttpServer> network_;  // last: it calls all of the above
};

}  // namespace divvy
