// A user namespace of a user's own, with a mount namespace in it: inside, the user is root over
// what is theirs (their files, their subordinate numbers) and over nothing else. Podman makes one
// for itself with two set-user-id programs (newuidmap, newgidmap); what root's daemon starts cannot
// use these (no_new_privs), so the shepherd does what they do: it writes the maps, with the two
// capabilities that it has for becoming the user anyway (SETUID, SETGID).
//
// What the map may hold is root's word alone, in /etc/subuid and /etc/subgid. For a process with
// one thread (a shepherd).
#pragma once

#include <sys/types.h>

#include <vector>

#include "base/result.h"
#include "base/unique_fd.h"
#include "sys/subordinate_ids.h"

namespace divvy::sys {

// Who is inside: 0 there is the user, and the numbers from 1 on are the ranges, one after another.
struct NamespaceUser {
  uid_t uid = 0;
  gid_t gid = 0;
  std::vector<gid_t> groups;  // beside gid
  std::vector<IdRange> uids;
  std::vector<IdRange> gids;
};

class UserNamespace {
 public:
  // kUnavailable: the kernel does not allow it. Neither the user nor a range may be root's.
  [[nodiscard]] static Result<UserNamespace> create(const NamespaceUser& user);

  // In a process that has become the user: goes in and is root there. False with errno set.
  [[nodiscard]] bool enter() const;

 private:
  UserNamespace(UniqueFd user, UniqueFd mount) : user_(std::move(user)), mount_(std::move(mount)) {}

  UniqueFd user_;
  UniqueFd mount_;
};

}  // namespace divvy::sys
