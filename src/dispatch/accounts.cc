#include "dispatch/accounts.h"

#include <grp.h>
#include <pwd.h>
#include <unistd.h>

#include <array>

#include "base/text.h"
#include "store/people_table.h"

namespace divvy::dispatch {
namespace {

Result<Account> account_of(const std::string& owner, uid_t uid) {
  if (geteuid() != 0 && uid != geteuid()) {
    return err(ErrorCode::kFailedPrecondition,
               "this daemon does not run as root, so it runs jobs of its own user only, and not of "
               "{}",
               owner);
  }
  passwd entry{};
  passwd* found = nullptr;
  std::array<char, 16384> buffer;
  if (getpwuid_r(uid, &entry, buffer.data(), buffer.size(), &found) != 0 || found == nullptr) {
    return err(ErrorCode::kFailedPrecondition, "{} is no user of this machine (uid {})", owner,
               uid);
  }
  Account account;
  account.user = {found->pw_uid, found->pw_gid};
  account.login = {found->pw_name, found->pw_dir, found->pw_shell};
  int count = 64;
  account.groups.resize(static_cast<std::size_t>(count));
  if (getgrouplist(found->pw_name, found->pw_gid, account.groups.data(), &count) < 0) {
    account.groups.resize(static_cast<std::size_t>(count));
    if (getgrouplist(found->pw_name, found->pw_gid, account.groups.data(), &count) < 0) count = 0;
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
    if (!person || !person->uid) {
      return err(ErrorCode::kFailedPrecondition,
                 "{} is no user of this machine; an operator gives them one with `divvy user set "
                 "{} --uid UID`",
                 owner, owner);
    }
    return account_of(owner, *person->uid);
  };
}

}  // namespace divvy::dispatch
