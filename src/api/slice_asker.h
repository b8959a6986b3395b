// Asks for slices on behalf of a caller, as a job that holds them (`divvy run`, `divvy slice
// create`), and answers when they are granted or cannot be. Callable from many threads at once.
#pragma once

#include <boost/json/value.hpp>
#include <string>

#include "agent/agents.h"
#include "api/requests.h"
#include "control/dispatcher.h"
#include "model/person.h"
#include "net/http.h"

namespace divvy::api {

class SliceAsker {
 public:
  // What is referred to outlives it.
  SliceAsker(const agent::Agents& agents, control::Dispatcher& dispatcher)
      : agents_(agents), dispatcher_(dispatcher) {}

  struct Granted {
    boost::json::value document;  // what it has, as the machine shows it
    agent::Environment environment;
    std::string device;  // that containers name
    model::JobId job;
  };
  // Or the answer to the caller: 409 with what is in the way, 422 when it can never fit. `as` is
  // whose process it becomes.
  [[nodiscard]] tl::expected<Granted, net::HttpResponse> ask(GrantRequest wanted,
                                                             const model::Person& who,
                                                             const net::Caller& caller,
                                                             const agent::LocalCaller& as) const;

 private:
  [[nodiscard]] net::HttpResponse never(const GrantRequest& wanted, const Error& why) const;
  [[nodiscard]] net::HttpResponse not_now(const GrantRequest& wanted,
                                          const jobs::WaitReport& why) const;

  const agent::Agents& agents_;
  control::Dispatcher& dispatcher_;
};

}  // namespace divvy::api
