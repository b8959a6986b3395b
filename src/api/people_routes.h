// The part of the API that is about people and their tokens.
//
//   GET    /v1/whoami              who is calling
//   GET    /v1/people              everybody; for operators
//   POST   /v1/people              {"name", "role", "uid"}
//   PATCH  /v1/people/{name}       {"role", "uid", "disabled"}
//   DELETE /v1/people/{name}       their tokens go with them, their jobs stay
//   GET    /v1/tokens              one's own; everybody's for operators with ?everybody=true
//   POST   /v1/tokens              {"user", "label", "expires_in"}: the only time the token is
//   shown DELETE /v1/tokens/{id}         revokes it
//
// Callable from many threads at once.
#pragma once

#include <string>

#include "api/people.h"
#include "base/clock.h"
#include "net/http.h"
#include "store/database.h"

namespace divvy::api {

class PeopleRoutes {
 public:
  struct Parts {
    store::Database& database;
    const People& people;
    const Clock& clock;
  };
  // What `parts` refers to outlives it.
  explicit PeopleRoutes(Parts parts) : parts_(parts) {}

  [[nodiscard]] static bool handles(const std::string& path);
  [[nodiscard]] net::HttpResponse handle(const net::HttpRequest& request,
                                         const net::Caller& caller) const;

 private:
  using Answer = Result<net::HttpResponse>;

  [[nodiscard]] Answer route(const net::HttpRequest& request, const model::Person& who) const;
  [[nodiscard]] Answer list() const;
  [[nodiscard]] Answer add(const std::string& body) const;
  [[nodiscard]] Answer change(const std::string& name, const std::string& body) const;
  [[nodiscard]] Answer remove(const std::string& name) const;
  [[nodiscard]] Answer tokens(const std::string& query, const model::Person& who) const;
  [[nodiscard]] Answer add_token(const std::string& body, const model::Person& who) const;
  [[nodiscard]] Answer revoke(const std::string& id, const model::Person& who) const;

  Parts parts_;
};

}  // namespace divvy::api
