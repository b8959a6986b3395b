// The API: finds the route of a request, takes the one permission step that stands before every
// handler, and calls the handler. Callable from many threads at once.
#pragma once

#include <span>

#include "api/request_target.h"
#include "api/routes.h"

namespace divvy::api {

class Api {
 public:
  explicit Api(Parts parts, std::span<const Route> table = routes())
      : parts_(std::move(parts)), table_(table) {}

  [[nodiscard]] net::HttpResponse handle(const net::HttpRequest& request,
                                         const net::Caller& caller) const;
  [[nodiscard]] const Parts& parts() const { return parts_; }

 private:
  // The permission step, and what comes behind it.
  [[nodiscard]] Answer permit_and_call(const Target& target, const net::HttpRequest& request,
                                       const net::Caller& caller, const model::Person& who) const;

  Parts parts_;
  std::span<const Route> table_;
};

}  // namespace divvy::api
