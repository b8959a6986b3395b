// The part of the API that is about machines: their GPUs, who holds slices of them, and what
// happens there. Everything is asked of the machines' agents.
//
//   GET    /v1/node                  this machine, and what is free on it
//   GET    /v1/stats                 GPUs and tenants in one answer, for those who watch
//   GET    /v1/tenants               who holds slices
//   POST   /v1/tenants               slices for the process that asks; 409 when it does not fit
//   now,
//                                    422 when it never will
//   GET    /v1/tenants/{tenant}      one, by number or name
//   PATCH  /v1/tenants/{tenant}      other terms: share, memory, cap, class
//   DELETE /v1/tenants/{tenant}      gives the slices back; 409 while processes use them
//   GET    /v1/slices                slices that are held by a name, for containers
//   POST   /v1/slices                holds one
//   GET    /v1/slices/{name}         one; DELETE gives it back
//   GET    /v1/gpus                  every GPU: its health, cordon, tenants and latest sample
//   POST   /v1/gpus/{gpu}/cordon     no new work; {"reason": "..."} may be given
//   POST   /v1/gpus/{gpu}/drain      and the present work is to end; {"deadlineSeconds": 600} ends
//   it POST   /v1/gpus/{gpu}/uncordon GET    /v1/events?since=N        what happened there after
//   event N; &wait=SECONDS waits for some
//
// Whoever is known may look. Changes are for the tenant's own user and for admins; slices for a
// process that asks are for those on the machine. Callable from many threads at once.
#pragma once

#include <boost/json/fwd.hpp>
#include <string>

#include "agent/agents.h"
#include "api/event_bell.h"
#include "api/people.h"
#include "api/slice_asker.h"
#include "control/dispatcher.h"
#include "net/http.h"
#include "store/database.h"

namespace divvy::api {

class MachineRoutes {
 public:
  struct Parts {
    const agent::Agents& agents;
    control::Dispatcher& dispatcher;
    store::Database& database;
    const People& people;
    EventBell& bell;
  };
  // What is referred to outlives it.
  explicit MachineRoutes(const Parts& parts)
      : parts_(parts), asker_(parts.agents, parts.dispatcher) {}

  [[nodiscard]] static bool handles(const std::string& path);
  [[nodiscard]] net::HttpResponse handle(const net::HttpRequest& request,
                                         const net::Caller& caller) const;

 private:
  using Answer = Result<net::HttpResponse>;
  // A request and who makes it.
  struct Call {
    const net::HttpRequest& request;
    const net::Caller& caller;
    model::Person who;
  };
  [[nodiscard]] Answer route(const Call& call) const;
  [[nodiscard]] Answer of_tenant(const Call& call, const std::string& tenant) const;
  [[nodiscard]] Answer of_slice(const Call& call, const std::string& name) const;

  [[nodiscard]] Answer node() const;
  [[nodiscard]] Answer stats() const;
  [[nodiscard]] Answer list(agent::View view, std::string_view kind) const;
  [[nodiscard]] Answer get(agent::View view, const std::string& name, std::string_view kind) const;
  [[nodiscard]] Answer grant(const Call& call) const;
  [[nodiscard]] Answer hold(const Call& call) const;
  [[nodiscard]] Answer change(const Call& call, const std::string& tenant) const;
  [[nodiscard]] Answer give_back(const Call& call, const std::string& tenant, bool held_only) const;
  [[nodiscard]] Answer gpus() const;
  [[nodiscard]] Answer cordon(const Call& call, const std::string& gpu,
                              const std::string& word) const;
  [[nodiscard]] Answer events(const Call& call) const;

  // As the document of one machine; an array is that of all machines together.
  [[nodiscard]] Result<boost::json::value> view(agent::Agent& agent, agent::View what,
                                                const std::string& name = {}) const;
  [[nodiscard]] Result<boost::json::array> items(agent::View what) const;
  // The machine that has it; the last error where none has.
  [[nodiscard]] Result<agent::Agent*> find(agent::View what, const std::string& name) const;

  Parts parts_;
  SliceAsker asker_;
};

}  // namespace divvy::api
