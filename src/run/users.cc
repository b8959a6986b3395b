#include "run/users.h"

#include <grp.h>
#include <pwd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace divvy::run {
namespace {

// Retries with more room until the entry fits. `ask` is getpwnam_r or getpwuid_r.
template <typename Ask>
Result<MachineUser> look_up(const std::string& whom, const Ask& ask) {
  std::vector<char> room(4096);
  passwd entry{};
  passwd* found = nullptr;
  int failed = 0;
  while ((failed = ask(&entry, room.data(), room.size(), &found)) == ERANGE &&
         room.size() < (std::size_t{1} << 24)) {
    room.resize(room.size() * 2);
  }
  if (failed != 0) {
    return err(ErrorCode::kUnavailable, "the machine does not say who {} is: {}", whom,
               std::strerror(failed));
  }
  if (found == nullptr) return err(ErrorCode::kNotFound, "this machine has no user {}", whom);
  MachineUser user;
  user.uid = entry.pw_uid;
  user.gid = entry.pw_gid;
  user.account = {entry.pw_name, entry.pw_dir, entry.pw_shell};
  int count = 64;
  user.groups.resize(static_cast<std::size_t>(count));
  while (::getgrouplist(entry.pw_name, entry.pw_gid, user.groups.data(), &count) < 0) {
    count = std::max(count, static_cast<int>(user.groups.size()) * 2);
    user.groups.resize(static_cast<std::size_t>(count));
  }
  user.groups.resize(static_cast<std::size_t>(count));
  std::erase(user.groups, user.gid);
  return user;
}

}  // namespace

Result<MachineUser> find_user(const std::string& name) {
  return look_up(name, [&name](passwd* entry, char* room, std::size_t size, passwd** found) {
    return ::getpwnam_r(name.c_str(), entry, room, size, found);
  });
}

Result<MachineUser> find_user(uid_t uid) {
  return look_up(fmt::format("with number {}", uid),
                 [uid](passwd* entry, char* room, std::size_t size, passwd** found) {
                   return ::getpwuid_r(uid, entry, room, size, found);
                 });
}

}  // namespace divvy::run
