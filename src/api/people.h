// Who is calling, and what they may do. On the local socket the kernel says who it is; over the
// network a token does. Asked before every route, from any thread.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <string_view>

#include "base/clock.h"
#include "base/result.h"
#include "model/job.h"
#include "model/person.h"
#include "net/http.h"
#include "net/rate_limit.h"
#include "store/database.h"

namespace divvy::api {

// What a route asks of who comes (routes.cc). Admins may do everything but what is named otherwise.
enum class Permission {
  kAnyone,         // a stranger, too
  kKnown,          // whoever has shown who they are
  kOwn,            // the same, about what is their own; that of others is for admins: the handler,
                   // which knows whose it is, asks may() for kAdmin
  kSeeJob,         // whoever is known: that a job is there and how it stands
  kLookInsideJob,  // its owner: command, logs, exec, cp
  kChangeJob,      // its owner: update, cancel, suspend, resume, requeue
  kMachineUser,    // who is a user of the machine; whose slices they are is for the machine to say
  kAdmin,          // people, quotas, GPUs
  kDaemonUser,     // root and the user of the daemon, by their uid: other admins may not
};

// Somebody, and what they showed.
struct Identity {
  model::Person person;
  std::string token;  // its id; empty where the kernel said who it is
};

// kPermissionDenied with whose it is. `job` is null where it is about none.
[[nodiscard]] Status may(const model::Person& person, Permission permission,
                         const model::Job* job = nullptr);

class People {
 public:
  // Both outlive it. `daemon_uid` is as good as root here: it owns the state.
  People(store::Database& database, const Clock& clock, uid_t daemon_uid)
      : database_(database), clock_(clock), daemon_uid_(daemon_uid) {}

  // A token decides where there is one, also on the socket. kPermissionDenied for a token that is
  // not valid, for nobody on the network, and for somebody who is disabled: answer with refusal().
  [[nodiscard]] Result<Identity> identify(const net::HttpRequest& request,
                                          const net::Caller& caller) const;

  // The name of who has a valid token; nothing where there is none. For limits.
  [[nodiscard]] std::optional<std::string> account_of(const net::HttpRequest& request) const;

  // 401 as problem+json, with the header that says how to do better.
  [[nodiscard]] static net::HttpResponse refusal(const Error& error);

  // The user of this machine as a person, by the name in /etc/passwd. Somebody of that name whom an
  // operator has tied to another uid is somebody else.
  [[nodiscard]] Result<model::Person> local_person(uid_t uid) const;

 private:
  [[nodiscard]] Result<Identity> owner_of(std::string_view token) const;

  store::Database& database_;
  const Clock& clock_;
  uid_t daemon_uid_;
  // Of refused tokens one line a second for each caller: the log is not for them to fill.
  mutable net::RateLimit refusals_{1};
};

}  // namespace divvy::api
