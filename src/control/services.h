// Services: looks at their replicas and their traffic, asks the room `serve` what is to happen, and
// carries it out: jobs through the dispatcher, routing through the proxy. The store has all that
// counts, and what is decided is there before it is done, so a daemon that was killed at any moment
// goes on where it was; replicas are found by their labels. Requests do not wait for any of it.
//
// One thread of its own makes the rounds, whenever something happened or the time has come. The
// other methods may be called from any thread; changes are on the disk when they return. No lock is
// held over the store, the dispatcher or the proxy.
#pragma once

#include <atomic>
#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "control/dispatcher.h"
#include "proxy/proxy.h"
#include "serve/plan.h"
#include "serve/service.h"
#include "store/database.h"
#include "store/service_table.h"

namespace divvy::control {

// How a service was found in the last round.
struct ReplicaSeen {
  serve::Replica replica;
  std::uint16_t port = 0;
  std::uint64_t requests = 0;
  std::uint64_t errors = 0;
};
struct ServiceSeen {
  std::vector<ReplicaSeen> replicas;
  std::uint32_t in_flight = 0;
  std::string trouble;  // that somebody has to do something about; empty: none
};

// For monitoring: a version of a service. Counters begin with the daemon.
struct VersionLoad {
  std::string service;
  serve::VersionNumber version = 0;
  std::uint32_t replicas = 0;
  std::uint32_t ready = 0;
  std::uint32_t in_flight = 0;
  std::uint64_t requests = 0;
  std::uint64_t errors = 0;
};

class Services {
 public:
  // Each takes a port of the machine, and what is done for one is done for all in one process.
  static constexpr std::size_t kMostOfOneOwner = 50;

  struct Parts {
    store::Database& database;
    Dispatcher& dispatcher;
    proxy::Proxy& proxy;
    const Clock& clock;
  };

  // What `parts` refers to outlives it.
  [[nodiscard]] static Result<std::unique_ptr<Services>> create(Parts parts);
  // Replicas and routing go on.
  ~Services();
  Services(const Services&) = delete;
  Services& operator=(const Services&) = delete;

  // Makes rounds from now on, in a thread of its own. Otherwise a test calls step().
  void begin();
  // Something happened. Costs nothing where there are no services.
  void wake();

  // Also asks whether such a job could run, and the port is free.
  [[nodiscard]] Result<serve::Service> make(std::string name, const std::string& owner,
                                            serve::Settings settings, model::JobSpec job);
  using Change = std::function<Status(serve::Service&, WallTime)>;
  // `change` may be called again, where somebody else was quicker.
  [[nodiscard]] Result<serve::Service> change(const std::string& name, const Change& change);
  // kNotFound.
  [[nodiscard]] Result<serve::Service> find(const std::string& name);
  [[nodiscard]] Result<std::vector<serve::Service>> list();
  [[nodiscard]] ServiceSeen seen(const std::string& name) const;
  [[nodiscard]] std::vector<VersionLoad> load() const;
  // Whether a version with this job could have replicas.
  [[nodiscard]] Status could_run(const serve::Service& service, const model::JobSpec& job);

  // One round; how long it may take until the next one. Nothing: until something happens.
  [[nodiscard]] std::optional<Duration> step();

 private:
  explicit Services(Parts parts) : parts_(parts) {}

  // A replica that was submitted and not seen to end.
  struct Started {
    serve::VersionNumber version = 0;
    std::uint16_t port = 0;
    std::uint64_t requests = 0;  // as the proxy said last
    std::uint64_t errors = 0;
  };
  // Of one service, by the one thread that makes the rounds.
  struct Desk {
    std::map<model::JobId, Started> started;
    serve::Memory memory;
    WallTime not_before;  // of the next start, where one was refused
    std::string trouble;
  };
  struct Entry {
    serve::Service service;
    std::int64_t revision = 0;
  };

  void run();
  // The job that is a replica of such a version.
  [[nodiscard]] static model::JobSpec replica_of(const serve::Service& service, model::JobSpec job,
                                                 serve::VersionNumber version, std::uint16_t port);
  [[nodiscard]] Status find_replicas();
  [[nodiscard]] Result<std::vector<Entry>> read_all();
  [[nodiscard]] Result<bool> write(const Entry& entry);
  [[nodiscard]] std::vector<ReplicaSeen> look(const serve::Service& service, const Desk& desk,
                                              const std::optional<proxy::Report>& report);
  // Whether what was decided could be written down.
  [[nodiscard]] bool decide(Entry& entry, Desk& desk, ServiceSeen& seen,
                            const std::optional<serve::Traffic>& traffic);
  // Of the replicas that are ready, where that decides about their number.
  [[nodiscard]] std::optional<std::uint32_t> use_of_gpus(const serve::Service& service);
  void start(const serve::Service& service, serve::VersionNumber version, Desk& desk);
  [[nodiscard]] static proxy::Site site_of(const serve::Service& service, const Desk& desk,
                                           const std::vector<ReplicaSeen>& replicas);
  [[nodiscard]] std::set<std::uint16_t> taken_ports() const;
  void look_again(Duration within);
  void count(const serve::Service& service, Desk& desk, const std::vector<ReplicaSeen>& replicas);

  Parts parts_;
  std::map<std::string, Desk> desks_;
  std::set<std::uint16_t> service_ports_;
  std::optional<Duration> patience_;
  bool routing_ = true;  // the proxy may have something to do

  mutable std::mutex mutex_;  // of what follows
  std::condition_variable changed_;
  std::map<std::string, ServiceSeen> seen_;
  using LoadKey = std::pair<std::string, serve::VersionNumber>;
  std::map<LoadKey, VersionLoad> load_;
  bool woken_ = true;
  bool stopping_ = false;
  std::atomic<bool> any_ = true;
  std::thread thread_;  // last: it uses all of the above
};

}  // namespace divvy::control
