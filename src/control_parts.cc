#include "control_parts.h"

#include <unistd.h>

#include "api/handlers.h"
#include "base/log.h"
#include "console/console.h"
#include "store/upkeep.h"

namespace divvy {
namespace {

// Nobody else can reach it.
bool is_own(const net::TcpAddress& address) {
  return address.host == "localhost" || address.host == "::1" || address.host.starts_with("127.");
}

}  // namespace

ControlSide::ControlSide(Clock& clock, ControlSettings settings)
    : settings_(std::move(settings)), clock_(clock) {}

ControlSide::~ControlSide() {
  // The network calls all of the rest.
  network_.reset();
  // Its thread calls the bell, and the services.
  if (dispatcher_) dispatcher_->on_events({});
  services_.reset();
  schedules_.reset();
  dispatcher_.reset();
}

Result<std::unique_ptr<ControlSide>> ControlSide::create(const agent::Agents& agents, Clock& clock,
                                                         ControlSettings settings) {
  std::unique_ptr<ControlSide> made(new ControlSide(clock, std::move(settings)));
  DIVVY_TRY(database, store::Database::open(made->settings_.state / "divvy.db"));
  made->database_ = std::move(database);
  made->people_ = std::make_unique<api::People>(*made->database_, clock, ::geteuid());
  made->secrets_ = std::make_unique<control::Secrets>(*made->database_, clock,
                                                      made->settings_.state / "secrets.key");
  made->notifier_ =
      std::make_unique<notify::Notifier>(*made->database_, clock, made->settings_.notifications);
  DIVVY_TRY(
      dispatcher,
      control::Dispatcher::create(
          {.database = *made->database_,
           .agents = agents,
           .clock = clock,
           .settings = made->settings_.queue,
           .secrets = made->secrets_.get(),
           .check_notify = [notifier = made->notifier_.get()](
                               const model::Notify& notify) { return notifier->check(notify); },
           .on_notification = [notifier = made->notifier_.get()] { notifier->wake(); }}));
  made->dispatcher_ = std::move(dispatcher);
  made->proxy_ = std::make_unique<proxy::Haproxy>(proxy::Haproxy::Options{
      .folder = made->settings_.run / "serve", .address = made->settings_.services_address});
  DIVVY_TRY(services, control::Services::create({.database = *made->database_,
                                                 .dispatcher = *made->dispatcher_,
                                                 .proxy = *made->proxy_,
                                                 .clock = clock}));
  made->services_ = std::move(services);
  made->schedules_ = std::make_unique<control::Schedules>(control::Schedules::Parts{
      .database = *made->database_, .dispatcher = *made->dispatcher_, .clock = clock});
  made->dispatcher_->on_events([bell = &made->bell_, services = made->services_.get()] {
    bell->ring();
    services->wake();
  });
  made->retention_ = std::make_unique<control::Retention>(*made->database_, agents, clock,
                                                          made->settings_.retention);
  if (made->settings_.sign_in) {
    DIVVY_TRY(sign_in, make_sign_in(*made->settings_.sign_in, *made->database_, clock));
    made->sign_in_ = std::move(sign_in);
  }
  made->api_ = std::make_unique<api::Api>(api::Parts{
      .dispatcher = *made->dispatcher_,
      .database = *made->database_,
      .people = *made->people_,
      .agents = agents,
      .clock = clock,
      .bell = made->bell_,
      .kept_for = [retention = made->retention_.get()] { return retention->rules().keep; },
      .configured = [home = made.get()] { return home->configured(); },
      .cookies_need_tls = !made->settings_.certificate.empty(),
      .history = &made->history_,
      .settings =
          [home = made.get()] {
            const std::lock_guard lock(home->mutex_);
            return home->settings_.shown;
          },
      .what_if = &made->what_if_,
      .keep_channels = made->settings_.keep_channels,
      .services = made->services_.get(),
      .services_address = made->settings_.services_address,
      .schedules = made->schedules_.get(),
      .secrets = made->secrets_.get(),
      .sign_in = made->sign_in_.get()});
  DIVVY_RETURN_IF_ERROR(api::apply_settings(made->api_->parts()));
  DIVVY_RETURN_IF_ERROR(made->serve_network());
  made->retention_->begin();
  made->services_->begin();
  made->schedules_->begin();
  made->notifier_->begin();
  made->sampler_ = std::make_unique<api::UseSampler>(agents, clock, made->history_);
  made->sampler_->begin();
  return made;
}

Status ControlSide::restore(const std::filesystem::path& state,
                            const std::filesystem::path& backup) {
  DIVVY_TRY(database, store::Database::open(state / "divvy.db"));
  return database->restore(backup);
}

jobs::Settings ControlSide::configured() const {
  const std::lock_guard lock(mutex_);
  return settings_.queue;
}

Status ControlSide::change(const ControlSettings& settings) {
  {
    const std::lock_guard lock(mutex_);
    settings_.queue = settings.queue;
    settings_.shown = settings.shown;
  }
  retention_->set_rules(settings.retention);
  notifier_->set_rules(settings.notifications);
  return api::apply_settings(api_->parts());
}

void ControlSide::renew_certificate() const {
  if (!network_ || settings_.certificate.empty()) return;
  if (const Status renewed = network_->reload_tls(); !renewed) {
    log_error("the API keeps its certificate", {{"reason", renewed.error().message}});
  }
}

void ControlSide::tidy() const {
  const WallTime now = clock_.wall_now();
  const model::Seconds keep = retention_->rules().keep;
  const auto since = keep > model::Seconds(0) ? std::optional(now - keep) : std::nullopt;
  database_->later([now, since](store::Connection& connection) {
    return store::forget_old(connection, now, since);
  });
}

Status ControlSide::serve_network() {
  if (settings_.address == "off") return {};
  net::HttpServerOptions options;
  DIVVY_TRY(address, net::TcpAddress::parse(settings_.address));
  const bool tls = !settings_.certificate.empty();
  if (!tls && !is_own(address)) {
    return err(ErrorCode::kInvalidArgument,
               "api.address is {}, which others can reach, so api.certificate and api.key are "
               "needed: tokens must not cross a network in the clear",
               settings_.address);
  }
  options.network = std::move(address);
  if (tls) options.tls = net::TlsIdentity{settings_.certificate, settings_.key};
  options.max_rate = settings_.max_rate;
  options.max_connections = 1024;
  options.max_streams = 512;
  options.max_per_caller = 256;
  options.account = [this](const auto& request, const auto& /*caller*/) {
    return people_->account_of(request);
  };
  DIVVY_TRY(server, net::HttpServer::create(options, [this](const auto& sent, const auto& caller) {
              return handle_network(sent, caller);
            }));
  network_ = std::move(server);
  log_info("API for the network", {{"port", network_->port()},
                                   {"tls", tls},
                                   {"console", settings_.console && !console::assets().empty()}});
  return {};
}

net::HttpResponse ControlSide::handle_network(const net::HttpRequest& request,
                                              const net::Caller& caller) const {
  if (settings_.console && !console::is_for_api(request.path)) return console::serve(request);
  net::HttpResponse answer = api_->handle(request, caller);
  console::forbid_rendering(answer);
  return answer;
}

}  // namespace divvy
