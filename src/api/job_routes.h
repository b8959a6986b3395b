// The part of the API that is about jobs.
//
//   POST   /v1/jobs                 submits: 201 with the jobs, 200 for a key that came before;
//                                   ?dry_run=true only checks
//   GET    /v1/jobs                 a page of jobs: filters, `after` and `limit` in the query
//   GET    /v1/jobs/{id}            one, with why it waits and when it may start
//   DELETE /v1/jobs/{id}            cancels it; one that has ended stays in the list
//   PATCH  /v1/jobs/{id}            changes its priority or time limit; while it waits its queue
//                                   and size
//   POST   /v1/jobs/{id}/suspend    and resume, and requeue
//   GET    /v1/jobs/{id}/explain    what stands in its way, GPU by GPU
//   GET    /v1/jobs/{id}/attempts   every time that it was started
//   GET    /v1/jobs/{id}/logs       its output; ?follow=true while it grows
//   GET    /v1/jobs/{id}/members    where its members are
//   POST   /v1/jobs/{id}/stream     into a member: exec, attach, copies, ports. The connection
//                                   becomes one of frames (sys/frames.h)
//   POST   /v1/jobs/prune           forgets jobs that ended long ago
//   GET    /v1/watch                what happens to jobs, as server-sent events
//
// Everybody sees that a job is there; what is inside it is for its owner and operators. Callable
// from many threads at once.
#pragma once

#include <boost/json/fwd.hpp>
#include <functional>
#include <string>

#include "agent/agents.h"
#include "api/event_bell.h"
#include "api/people.h"
#include "base/clock.h"
#include "control/dispatcher.h"
#include "net/http.h"
#include "store/database.h"

namespace divvy::api {

class JobRoutes {
 public:
  struct Parts {
    control::Dispatcher& dispatcher;
    store::Database& database;
    const People& people;
    const agent::Agents& agents;
    const Clock& clock;
    EventBell& bell;
    // How long ended jobs are kept; 0: until somebody prunes them.
    std::function<model::Seconds()> kept_for;
  };
  // What `parts` refers to outlives it.
  explicit JobRoutes(Parts parts) : parts_(std::move(parts)) {}

  [[nodiscard]] static bool handles(const std::string& path);
  [[nodiscard]] net::HttpResponse handle(const net::HttpRequest& request,
                                         const net::Caller& caller) const;

 private:
  using Answer = Result<net::HttpResponse>;

  [[nodiscard]] Answer route(const net::HttpRequest& request, const model::Person& who) const;
  [[nodiscard]] Answer of_job(const net::HttpRequest& request, const model::Person& who,
                              const std::string& id, const std::string& word) const;
  [[nodiscard]] Answer submit(const net::HttpRequest& request, const model::Person& who) const;
  [[nodiscard]] Answer list(const std::string& query, const model::Person& who) const;
  [[nodiscard]] Answer get(const model::Job& job, const model::Person& who) const;
  [[nodiscard]] Answer explain(const model::Job& job) const;
  // Why there is no job of a number that was given.
  [[nodiscard]] Error removed(model::JobId id) const;
  // Whether an attempt that has ended left output, which is kept only so long.
  [[nodiscard]] bool has_output(const model::Job& job, std::uint32_t attempt) const;
  [[nodiscard]] Answer attempts(const model::Job& job) const;
  [[nodiscard]] Result<boost::json::object> accounting(const model::Job& job) const;
  [[nodiscard]] Answer members(const model::Job& job) const;
  [[nodiscard]] Answer logs(const model::Job& job, const std::string& query) const;
  [[nodiscard]] Answer open_stream(const model::Job& job, const net::HttpRequest& request) const;
  [[nodiscard]] Answer prune(const std::string& body, const model::Person& who) const;
  [[nodiscard]] Answer watch(const net::HttpRequest& request) const;
  // As it is now, or as it was when it ended.
  [[nodiscard]] Result<model::Job> find(model::JobId id) const;

  Parts parts_;
};

}  // namespace divvy::api
