// The local API of one machine: which request does what to its tenants.
//
//   GET    /v1/node           the machine and what is free on its GPUs
//   GET    /v1/tenants        everybody who holds slices
//   POST   /v1/tenants        asks for slices for the calling process: 201 with what was granted,
//                             409 when it does not fit now, 422 when it never will
//   GET    /v1/tenants/{id}   one, by number or name
//   PATCH  /v1/tenants/{id}   share, memory, cap, class while it runs
//   DELETE /v1/tenants/{id}   takes the slices back; 409 while processes of it use the GPU
//   /v1/slices                slices that are held by a name: see slice_routes.h
//   GET    /v1/stats          GPUs and tenants in one answer, for those who watch
//
// Errors are problem+json with one sentence in `detail`. Callable from many threads at once.
#pragma once

#include <string>

#include "api/slice_asker.h"
#include "net/http.h"
#include "node/tenants.h"

namespace divvy::api {

class NodeRoutes {
 public:
  // What is referred to outlives it.
  NodeRoutes(node::Tenants& tenants, dispatch::Dispatcher& dispatcher, const People& people,
             std::string version)
      : tenants_(tenants),
        dispatcher_(dispatcher),
        asker_(tenants, dispatcher, people),
        version_(std::move(version)) {}

  [[nodiscard]] net::HttpResponse handle(const net::HttpRequest& request,
                                         const net::Caller& caller) const;

 private:
  [[nodiscard]] net::HttpResponse node() const;
  [[nodiscard]] net::HttpResponse stats() const;
  [[nodiscard]] net::HttpResponse list() const;
  [[nodiscard]] net::HttpResponse get(const std::string& tenant) const;
  [[nodiscard]] net::HttpResponse grant(const net::HttpRequest& request,
                                        const net::Caller& caller) const;
  [[nodiscard]] net::HttpResponse change(const std::string& tenant, const std::string& body,
                                         const net::Caller& caller) const;
  [[nodiscard]] net::HttpResponse release(const std::string& tenant,
                                          const net::Caller& caller) const;

  node::Tenants& tenants_;
  dispatch::Dispatcher& dispatcher_;
  SliceAsker asker_;
  std::string version_;
};

}  // namespace divvy::api
