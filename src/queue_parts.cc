#include "queue_parts.h"

#include <unistd.h>

#include <boost/json.hpp>
#include <cstdlib>

#include "api/answers.h"
#include "api/openapi.h"
#include "api/request_target.h"
#include "base/log.h"
#include "dispatch/accounts.h"
#include "driver.h"
#include "run/rootless.h"
#include "store/upkeep.h"

namespace divvy {
namespace {

// Nobody else can reach it.
bool is_own(const net::TcpAddress& address) {
  return address.host == "localhost" || address.host == "::1" || address.host.starts_with("127.");
}

constexpr std::string_view kOpenApi = "/v1/openapi.json";

// Members that are processes find the driver by themselves, except a simulated one.
run::Environment driver_environment() {
  if (!wants_simulated_gpus()) return {};
  run::Environment environment{{"LD_LIBRARY_PATH", simulated_libraries().string()}};
  for (const char* name : {"DIVVY_SIM_GPUS", "DIVVY_SIM_CONFIG"}) {
    if (const char* value = std::getenv(name)) environment[name] = value;
  }
  environment.merge(simulation_environment());
  return environment;
}

Status check_container_of(const dispatch::FindAccount& account_of, const std::string& owner,
                          const model::ContainerSpec& container, const QueueSettings& settings) {
  DIVVY_TRY(account, account_of(owner));
  run::MachineUser user;
  user.uid = account.user.uid;
  user.gid = account.user.gid;
  user.groups = account.groups;
  user.account = account.login;
  return run::check_container(user, container, settings.podman,
                              {::geteuid(), settings.keeps_privileges});
}

}  // namespace

QueueHouse::QueueHouse(node::Tenants& tenants, Clock& clock, QueueSettings settings)
    : settings_(std::move(settings)),
      clock_(clock),
      machine_({.tenants = tenants,
                .shim = installation() / "lib/divvy/libdivvy.so",
                .environment = driver_environment()}) {}

QueueHouse::~QueueHouse() {
  // Its thread calls the bell.
  dispatcher_.reset();
}

Result<std::unique_ptr<QueueHouse>> QueueHouse::create(node::Tenants& tenants, Clock& clock,
                                                       QueueSettings settings) {
  std::unique_ptr<QueueHouse> house(new QueueHouse(tenants, clock, std::move(settings)));
  const std::filesystem::path& state = house->settings_.state;
  DIVVY_TRY(database, store::Database::open(state / "divvy.db"));
  house->database_ = std::move(database);
  run::MachineRuntime::Options options;
  options.members = state / "members";
  options.podman = house->settings_.podman;
  DIVVY_TRY(runtime, run::MachineRuntime::create(std::move(options), clock));
  house->runtime_ = std::move(runtime);
  house->people_ = std::make_unique<api::People>(*house->database_, clock, ::geteuid());
  DIVVY_TRY(dispatcher,
            dispatch::Dispatcher::create({.database = *house->database_,
                                          .machine = house->machine_,
                                          .runtime = *house->runtime_,
                                          .account = dispatch::accounts_of(*house->database_),
                                          .clock = clock,
                                          .settings = house->settings_.queue}));
  house->dispatcher_ = std::move(dispatcher);
  house->dispatcher_->on_events([bell = &house->bell_] { bell->ring(); });
  house->retention_ = std::make_unique<dispatch::Retention>(*house->database_, *house->runtime_,
                                                            clock, house->settings_.retention);
  house->jobs_ = std::make_unique<api::JobRoutes>(api::JobRoutes::Parts{
      .dispatcher = *house->dispatcher_,
      .database = *house->database_,
      .people = *house->people_,
      .runtime = *house->runtime_,
      .folder_of = [&runtime = *house->runtime_](
                       const run::MemberKey& key) { return runtime.folder_of(key); },
      .check_container =
          [home = house.get()](const std::string& owner, const model::ContainerSpec& container) {
            return check_container_of(dispatch::accounts_of(*home->database_), owner, container,
                                      home->settings_);
          },
      .clock = clock,
      .bell = house->bell_,
      .kept_for = [retention = house->retention_.get()] { return retention->rules().keep; }});
  house->people_routes_ = std::make_unique<api::PeopleRoutes>(
      api::PeopleRoutes::Parts{*house->database_, *house->people_, clock});
  house->queues_ = std::make_unique<api::QueueRoutes>(
      api::QueueRoutes::Parts{.dispatcher = *house->dispatcher_,
                              .database = *house->database_,
                              .people = *house->people_,
                              .configured = [home = house.get()] { return home->configured(); }});
  DIVVY_CHECK_OK(house->queues_->apply());
  DIVVY_CHECK_OK(house->serve_network());
  house->retention_->begin();
  return house;
}

Status QueueHouse::restore(const std::filesystem::path& state,
                           const std::filesystem::path& backup) {
  DIVVY_TRY(database, store::Database::open(state / "divvy.db"));
  return database->restore(backup);
}

jobs::Settings QueueHouse::configured() const {
  const std::lock_guard lock(mutex_);
  return settings_.queue;
}

Status QueueHouse::change(const QueueSettings& settings) {
  {
    const std::lock_guard lock(mutex_);
    settings_.queue = settings.queue;
  }
  retention_->set_rules(settings.retention);
  return queues_->apply();
}

void QueueHouse::renew_certificate() const {
  if (!network_ || settings_.certificate.empty()) return;
  if (const Status renewed = network_->reload_tls(); !renewed) {
    log_error("the API keeps its certificate", {{"reason", renewed.error().message}});
  }
}

void QueueHouse::tidy() const {
  const WallTime now = clock_.wall_now();
  const model::Seconds keep = retention_->rules().keep;
  const auto since = keep > model::Seconds(0) ? std::optional(now - keep) : std::nullopt;
  database_->later([now, since](store::Connection& connection) {
    return store::forget_old(connection, now, since);
  });
}

// Nothing here but what asks who is calling: slices and GPUs are for those on the machine.
Status QueueHouse::serve_network() {
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
  options.max_connections = 256;
  options.max_per_caller = 32;
  options.account = [this](const auto& request, const auto& /*caller*/) {
    return people_->account_of(request);
  };
  DIVVY_TRY(server, net::HttpServer::create(options, [this](const auto& sent, const auto& caller) {
              const auto target = api::resolve_target(sent);
              if (!target) return target.error();
              if (handles(target->path)) return handle(*target, caller);
              return api::problem(
                  Error{ErrorCode::kNotFound, "this is served on the machine itself only"});
            }));
  network_ = std::move(server);
  log_info("API for the network", {{"port", network_->port()}, {"tls", tls}});
  return {};
}

bool QueueHouse::handles(const std::string& path) {
  return path == kOpenApi || api::JobRoutes::handles(path) || api::PeopleRoutes::handles(path) ||
         api::QueueRoutes::handles(path);
}

net::HttpResponse QueueHouse::handle(const net::HttpRequest& request,
                                     const net::Caller& caller) const {
  if (request.path == kOpenApi) return api::answer(200, api::openapi_document());
  if (api::JobRoutes::handles(request.path)) return jobs_->handle(request, caller);
  if (api::PeopleRoutes::handles(request.path)) return people_routes_->handle(request, caller);
  return queues_->handle(request, caller);
}

}  // namespace divvy
