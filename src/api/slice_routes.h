// The part of the local API that is about slices which are held by a name, for containers: no
// process stands behind one, and it stays until it is deleted.
//
//   GET    /v1/slices          those that are held
//   POST   /v1/slices          holds one: 201 with what was granted and the device to ask a
//                              container runtime for, 409 when it does not fit now, 422 when it
//                              never will
//   GET    /v1/slices/{name}   one
//   DELETE /v1/slices/{name}   gives it back; 409 while processes use it
//
// Each is a tenant as well, with all that /v1/tenants can do with one. Callable from many threads
// at once.
#pragma once

#include <string>

#include "api/slice_asker.h"
#include "net/http.h"
#include "node/tenants.h"

namespace divvy::api {

class SliceRoutes {
 public:
  // Both outlive it.
  SliceRoutes(node::Tenants& tenants, const SliceAsker& asker) : tenants_(tenants), asker_(asker) {}

  // Is the path one of these?
  [[nodiscard]] static bool is_here(const std::string& path);
  [[nodiscard]] net::HttpResponse handle(const net::HttpRequest& request,
                                         const net::Caller& caller) const;

 private:
  [[nodiscard]] net::HttpResponse list() const;
  [[nodiscard]] net::HttpResponse hold(const net::HttpRequest& request,
                                       const net::Caller& caller) const;
  [[nodiscard]] net::HttpResponse get(const std::string& name) const;
  [[nodiscard]] net::HttpResponse release(const std::string& name, const net::Caller& caller) const;
  [[nodiscard]] Result<node::TenantView> find(const std::string& name) const;

  node::Tenants& tenants_;
  const SliceAsker& asker_;
};

}  // namespace divvy::api
