#include "dispatch/accounts.h"

#include <grp.h>
#include <pwd.h>
#include <unistd.h>

#include <array>

#include "base/text.h"
#include "store/people_table.h"

namespace divvy::dispatch {
namespace {

struct Entry {
  passwd user{};
  std::array<char, 16384> text;
};

Result<Account> account_of(const passwd& user, const std::string& owner) {
  if (geteuid() != 0 && user.pw_uid != geteuid()) {
    return err(ErrorCode::kFailedPrecondition,
               "this daemon does not run as root, so it runs jobs of its own user only, and not of "
               "{}",
               owner);
  }
  Account account;
  account.user = {user.pw_uid, user.pw_gid};
  account.login = {user.pw_name, user.pw_dir, user.pw_shell};
  int count = 64;
  account.groups.resize(static_cast<std::size_t>(count));
  if (getgrouplist(user.pw_name, user.pw_gid, account.groups.data(), &count) < 0) {
    account.groups.resize(static_cast<std::size_t>(count));
    if (getgrouplist(user.pw_name, user.pw_gid, account.groups.data(), &count) < 0) count = 0;
  }
  account.groups.resize(static_cast<std::size_t>(count));
  return account;
}

}  // namespace

FindAccount accounts_of(store::Database& database) {
  return [&database](const std::string& owner) -> Result<Account> {
    DIVVY_TRY(person, database.read([&](store::Connection& connection) {
      return store::PeopleTable(connection).find(owner);
    }));
    Entry entry;
    passwd* found = nullptr;
    // Whom the kernel knows needs no entry in the store.
    if (!person) {
      getpwnam_r(owner.c_str(), &entry.user, entry.text.data(), entry.text.size(), &found);
    } else if (person->uid) {
      getpwuid_r(*person->uid, &entry.user, entry.text.data(), entry.text.size(), &found);
    } else if (geteuid() != 0) {
      // It can become nobody else, and whom its user added has been trusted with this account.
      getpwuid_r(geteuid(), &entry.user, entry.text.data(), entry.text.size(), &found);
    }
    if (found == nullptr) {
      return err(
          ErrorCode::kFailedPrecondition,
          "{} is no user of this machine; an operator makes them one with `divvy user set {} "
          "--uid UID`",
          owner, owner);
    }
    return account_of(*found, owner);
  };
}

}  // namespace divvy::dispatch
