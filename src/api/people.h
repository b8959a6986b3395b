// Who is calling, and what they may do. On the local socket the kernel says who it is; over the
// network a token does. Used by every route, from any thread.
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

// What somebody wants to do.
enum class Action {
  kSee,         // that a job is there and how it stands
  kLook,        // inside: command, logs, exec, cp
  kChange,      // update, cancel, suspend, resume, requeue
  kAdminister,  // people, quotas, GPUs, backups; about no job
};

// kPermissionDenied with whose it is. `job` is null where it is about none.
[[nodiscard]] Status may(const model::Person& person, Action action, const model::Job* job);

class People {
 public:
  // Both outlive it. `daemon_uid` is as good as root here: it owns the state.
  People(store::Database& database, const Clock& clock, uid_t daemon_uid)
      : database_(database), clock_(clock), daemon_uid_(daemon_uid) {}

  // A token decides where there is one, also on the socket. kPermissionDenied for a token that is
  // not valid, for nobody on the network, and for somebody who is disabled: answer with refusal().
  [[nodiscard]] Result<model::Person> identify(const net::HttpRequest& request,
                                               const net::Caller& caller) const;

  // The name of who has a valid token; nothing where there is none. For limits.
  [[nodiscard]] std::optional<std::string> account_of(const net::HttpRequest& request) const;

  // 401 as problem+json, with the header that says how to do better.
  [[nodiscard]] static net::HttpResponse refusal(const Error& error);

  // The user of this machine as a person, by the name in /etc/passwd. Somebody of that name whom an
  // operator has tied to another uid is somebody else.
  [[nodiscard]] Result<model::Person> local_person(uid_t uid) const;

 private:
  [[nodiscard]] Result<model::Person> owner_of(std::string_view token) const;

  store::Database& database_;
  const Clock& clock_;
  uid_t daemon_uid_;
  // Of refused tokens one line a second for each caller: the log is not for them to fill.
  mutable net::RateLimit refusals_{1};
};

}  // namespace divvy::api
