#include "run/member_folder.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/log.h"
#include "sys/durable_file.h"

namespace divvy::run {
namespace {

namespace fs = std::filesystem;

constexpr const char* kOrders = "orders";
constexpr const char* kWatch = "watch";
constexpr const char* kLock = "lock";
constexpr const char* kExit = "exit";
// Commands and environments may be as long as the kernel takes them (2 MiB), in JSON a few times
// that.
constexpr std::size_t kMaxOrders = std::size_t{16} << 20;
constexpr std::size_t kMaxSmall = std::size_t{64} << 10;
constexpr std::size_t kRoomForEnding = 4096;
// Before the name of a folder that is being removed.
constexpr std::string_view kRemoved = ".removed-";

}  // namespace

Result<MemberFolder> MemberFolder::create(const fs::path& members, const MemberKey& key) {
  const fs::path path = members / to_string(key);
  // Others may pass through to the socket; everything else in it is for its owner only.
  if (::mkdir(path.c_str(), 0711) != 0) {
    if (errno == EEXIST) {
      return err(ErrorCode::kAlreadyExists, "{} was started before", to_string(key));
    }
    return err(ErrorCode::kIo, "{} could not be made: {}", path.string(), std::strerror(errno));
  }
  ::chmod(path.c_str(), 0711);  // Whatever the umask
  DIVVY_TRY(folder, open(members, key));
  DIVVY_RETURN_IF_ERROR(folder.make_lock());
  return folder;
}

Result<MemberFolder> MemberFolder::open(const fs::path& members, const MemberKey& key) {
  return open(members / to_string(key));
}

Result<MemberFolder> MemberFolder::open(const fs::path& path) {
  DIVVY_TRY(key, parse_member_key(path.filename().string()));
  DIVVY_TRY(fd, sys::open_folder(path.string()));
  return MemberFolder(std::move(fd), path, key);
}

Status MemberFolder::write(const Orders& orders) const {
  return sys::write_whole(fd(), kOrders, to_document(orders));
}

Result<Orders> MemberFolder::orders() const {
  DIVVY_TRY(text, sys::read_file(fd(), kOrders, kMaxOrders));
  DIVVY_TRY(orders, parse_orders(text));
  if (orders.member.key != key_) {
    return err(ErrorCode::kDataLoss, "the orders in {} are those of {}", path_.string(),
               to_string(orders.member.key));
  }
  return orders;
}

Status MemberFolder::write(const Watch& watch) const {
  return sys::write_whole(fd(), kWatch, to_document(watch));
}

Result<Watch> MemberFolder::watch() const {
  DIVVY_TRY(text, sys::read_file(fd(), kWatch, kMaxSmall));
  return parse_watch(text);
}

Status MemberFolder::reserve_ending() const {
  return sys::reserve_room(fd(), kExit, kRoomForEnding);
}

Status MemberFolder::write(const Ending& ending) const {
  DIVVY_RETURN_IF_ERROR(sys::write_durably(fd(), kExit, to_document(ending)));
  // The folder itself may be as new as the file.
  const UniqueFd above(::openat(fd(), "..", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!above || ::fsync(above.get()) != 0) {
    return err(ErrorCode::kIo, "{} could not be synced: {}", path_.parent_path().string(),
               std::strerror(errno));
  }
  return {};
}

Result<Ending> MemberFolder::ending() const {
  DIVVY_TRY(text, sys::read_file(fd(), kExit, kMaxSmall));
  return parse_ending(text);
}

Status MemberFolder::make_lock() const {
  const UniqueFd file(::openat(fd(), kLock, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (file) return {};
  return err(ErrorCode::kIo, "the lock in {} could not be made: {}", path_.string(),
             std::strerror(errno));
}

Result<UniqueFd> MemberFolder::lock(int operation) const {
  // Not made here: a shepherd that comes so late that its folder is being removed finds none.
  UniqueFd file(::openat(fd(), kLock, O_RDWR | O_CLOEXEC | O_NOFOLLOW));
  if (!file) {
    return err(ErrorCode::kIo, "the lock in {} could not be opened: {}", path_.string(),
               std::strerror(errno));
  }
  while (::flock(file.get(), operation) != 0) {
    if (errno == EINTR) continue;
    return err(errno == EWOULDBLOCK ? ErrorCode::kUnavailable : ErrorCode::kIo,
               "somebody looks after {}", to_string(key_));
  }
  // Whoever removed it had the lock while we waited.
  if (is_gone()) return err(ErrorCode::kUnavailable, "{} was removed", to_string(key_));
  return file;
}

Result<UniqueFd> MemberFolder::try_lock() const {
  // Whoever made the folder may have been killed before it made the lock.
  DIVVY_RETURN_IF_ERROR(make_lock());
  return lock(LOCK_EX | LOCK_NB);
}
Result<UniqueFd> MemberFolder::lock() const { return lock(LOCK_EX); }

bool MemberFolder::is_gone() const {
  struct stat ours{};
  struct stat there{};
  if (::fstat(fd(), &ours) != 0) return false;
  if (::stat(path_.c_str(), &there) != 0) return errno == ENOENT;
  return ours.st_ino != there.st_ino || ours.st_dev != there.st_dev;
}

Status MemberFolder::remove() const {
  const Status made = make_lock();
  const auto held = made ? lock() : Result<UniqueFd>(err(made.error()));
  if (!held && is_gone()) return {};
  if (!held) return err(held.error());
  // Its name first, in one step and with the lock held: a shepherd that comes late, and whoever
  // else has it open, sees that it is gone, and never one that is half removed. What they put into
  // it meanwhile is removed with the rest.
  struct stat ours{};
  ::fstat(fd(), &ours);
  const fs::path removed =
      path_.parent_path() / fmt::format("{}{}-{}", kRemoved, to_string(key_), ours.st_ino);
  if (::rename(path_.c_str(), removed.c_str()) != 0) {
    return err(ErrorCode::kIo, "{} could not be removed: {}", path_.string(), std::strerror(errno));
  }
  std::error_code code;
  for (int tries = 0; tries < 3; ++tries) {
    fs::remove_all(removed, code);
    if (!code) return {};
  }
  log_warning("a member's folder is left for the next start",
              {{"folder", removed.string()}, {"reason", code.message()}});
  return {};
}

void remove_leftovers(const fs::path& members) {
  std::error_code code;
  for (const auto& entry : fs::directory_iterator(members, code)) {
    if (entry.path().filename().string().starts_with(kRemoved)) fs::remove_all(entry.path(), code);
  }
}

Result<std::vector<MemberKey>> list_members(const fs::path& members) {
  std::error_code code;
  std::vector<MemberKey> result;
  fs::directory_iterator entries(members, code);
  for (const fs::directory_iterator end; !code && entries != end; entries.increment(code)) {
    if (const auto key = parse_member_key(entries->path().filename().string())) {
      result.push_back(*key);
    }
  }
  if (code) {
    return err(ErrorCode::kIo, "{} could not be read: {}", members.string(), code.message());
  }
  std::ranges::sort(result);
  return result;
}

}  // namespace divvy::run
