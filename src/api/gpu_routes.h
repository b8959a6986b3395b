// The part of the local API that is about GPUs and what happens to them.
//
//   GET    /v1/gpus                  every GPU: its health, cordon, tenants and latest sample
//   POST   /v1/gpus/{gpu}/cordon     no new work; {"reason": "..."} may be given
//   POST   /v1/gpus/{gpu}/drain      and the present work is to end; {"deadlineSeconds": 600} ends
//   it POST   /v1/gpus/{gpu}/uncordon GET    /v1/events?since=N        what happened after event N;
//   &wait=SECONDS waits for some
//
// {gpu} is an index, a UUID or the beginning of one. Changes are for root and for the daemon's own
// user. Callable from many threads at once.
#pragma once

#include <string>

#include "net/http.h"
#include "node/gpu_care.h"
#include "node/tenants.h"

namespace divvy::api {

class GpuRoutes {
 public:
  // Both outlive it.
  GpuRoutes(node::Tenants& tenants, node::GpuCare& care) : tenants_(tenants), care_(care) {}

  [[nodiscard]] static bool handles(const std::string& path);
  [[nodiscard]] net::HttpResponse handle(const net::HttpRequest& request,
                                         const net::Caller& caller) const;

 private:
  [[nodiscard]] net::HttpResponse list() const;
  [[nodiscard]] net::HttpResponse change(const std::string& gpu, const std::string& action,
                                         const std::string& body, const net::Caller& caller) const;
  [[nodiscard]] net::HttpResponse events(const std::string& query, const net::Caller& caller) const;

  node::Tenants& tenants_;
  node::GpuCare& care_;
};

}  // namespace divvy::api
