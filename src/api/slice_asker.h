// Asks for slices on behalf of a caller on this machine, as a job that holds them (`divvy run`,
// `divvy slice create`), and answers when they are granted or cannot be. Callable from many threads
// at once.
#pragma once

#include "api/people.h"
#include "api/requests.h"
#include "dispatch/dispatcher.h"
#include "net/http.h"
#include "node/tenants.h"

namespace divvy::api {

class SliceAsker {
 public:
  // What is referred to outlives it.
  SliceAsker(node::Tenants& tenants, dispatch::Dispatcher& dispatcher, const People& people)
      : tenants_(tenants), dispatcher_(dispatcher), people_(people) {}

  struct Granted {
    node::Grant grant;
    model::JobId job;
  };
  // Or the answer to the caller: 409 with what is in the way, 422 when it can never fit.
  [[nodiscard]] tl::expected<Granted, net::HttpResponse> ask(GrantRequest wanted,
                                                             const net::HttpRequest& request,
                                                             const net::Caller& caller) const;

 private:
  [[nodiscard]] net::HttpResponse never(const GrantRequest& wanted, const Error& why) const;
  [[nodiscard]] net::HttpResponse not_now(const GrantRequest& wanted,
                                          const jobs::WaitReport& why) const;
  [[nodiscard]] std::optional<node::Want> want(const GrantRequest& wanted) const;

  node::Tenants& tenants_;
  dispatch::Dispatcher& dispatcher_;
  const People& people_;
};

}  // namespace divvy::api
