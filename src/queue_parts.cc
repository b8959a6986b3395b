#include "queue_parts.h"

#include <unistd.h>

#include <cstdlib>

#include "dispatch/accounts.h"
#include "driver.h"

namespace divvy {
namespace {

// Members that are processes find the driver by themselves, except a simulated one.
run::Environment driver_environment() {
  if (!wants_simulated_gpus()) return {};
  run::Environment environment{{"LD_LIBRARY_PATH", simulated_libraries().string()}};
  for (const char* name : {"DIVVY_SIM_GPUS", "DIVVY_SIM_CONFIG", "DIVVY_SIM_STATE"}) {
    if (const char* value = std::getenv(name)) environment[name] = value;
  }
  return environment;
}

}  // namespace

QueueHouse::QueueHouse(node::Tenants& tenants, QueueSettings settings)
    : settings_(std::move(settings)),
      machine_({.tenants = tenants,
                .shim = installation() / "lib/divvy/libdivvy.so",
                .environment = driver_environment()}) {}

QueueHouse::~QueueHouse() {
  // Its thread calls the bell.
  dispatcher_.reset();
}

Result<std::unique_ptr<QueueHouse>> QueueHouse::create(node::Tenants& tenants, Clock& clock,
                                                       QueueSettings settings) {
  std::unique_ptr<QueueHouse> house(new QueueHouse(tenants, std::move(settings)));
  const std::filesystem::path& state = house->settings_.state;
  DIVVY_TRY(database, store::Database::open(state / "divvy.db"));
  house->database_ = std::move(database);
  run::MachineRuntime::Options options;
  options.members = state / "members";
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
  house->jobs_ = std::make_unique<api::JobRoutes>(api::JobRoutes::Parts{
      .dispatcher = *house->dispatcher_,
      .database = *house->database_,
      .people = *house->people_,
      .runtime = *house->runtime_,
      .folder_of = [&runtime = *house->runtime_](
                       const run::MemberKey& key) { return runtime.folder_of(key); },
      .clock = clock,
      .bell = house->bell_});
  house->people_routes_ = std::make_unique<api::PeopleRoutes>(
      api::PeopleRoutes::Parts{*house->database_, *house->people_, clock});
  house->queues_ = std::make_unique<api::QueueRoutes>(
      api::QueueRoutes::Parts{.dispatcher = *house->dispatcher_,
                              .database = *house->database_,
                              .people = *house->people_,
                              .configured = [queue = house->settings_.queue] { return queue; }});
  DIVVY_CHECK_OK(house->queues_->apply());
  return house;
}

bool QueueHouse::handles(const std::string& path) {
  return api::JobRoutes::handles(path) || api::PeopleRoutes::handles(path) ||
         api::QueueRoutes::handles(path);
}

net::HttpResponse QueueHouse::handle(const net::HttpRequest& request,
                                     const net::Caller& caller) const {
  if (api::JobRoutes::handles(request.path)) return jobs_->handle(request, caller);
  if (api::PeopleRoutes::handles(request.path)) return people_routes_->handle(request, caller);
  return queues_->handle(request, caller);
}

}  // namespace divvy
