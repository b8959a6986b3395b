// The folder of a member, which is all that is known about it: `orders` (what to start), `lock`
// (held by its shepherd while that lives), `watch` (who looks after it), `log.N` (its output),
// `door` (the socket of its shepherd) and `exit` (the last word). Its parent holds those of all
// members, by name.
//
// Every change of who a member belongs to happens under the lock: a shepherd takes it before it
// starts anything and starts nothing where there is a last word already; whoever finds the lock
// free and no last word takes it, ends what was left, and writes that the member is lost. So a
// shepherd that comes late cannot start what was given up, and nothing starts twice.
//
// A value with a descriptor. Callable from any thread.
#pragma once

#include <filesystem>
#include <vector>

#include "base/result.h"
#include "base/unique_fd.h"
#include "run/member_documents.h"
#include "run/member_key.h"

namespace divvy::run {

class MemberFolder {
 public:
  // kAlreadyExists: there is one of this name.
  [[nodiscard]] static Result<MemberFolder> create(const std::filesystem::path& members,
                                                   const MemberKey& key);
  // kNotFound: there is none.
  [[nodiscard]] static Result<MemberFolder> open(const std::filesystem::path& members,
                                                 const MemberKey& key);
  // By its path, whose last part is the name of a member.
  [[nodiscard]] static Result<MemberFolder> open(const std::filesystem::path& path);

  [[nodiscard]] const MemberKey& key() const { return key_; }
  [[nodiscard]] const std::filesystem::path& path() const { return path_; }
  [[nodiscard]] int fd() const { return fd_.get(); }

  [[nodiscard]] Status write(const Orders& orders) const;
  [[nodiscard]] Result<Orders> orders() const;
  [[nodiscard]] Status write(const Watch& watch) const;
  [[nodiscard]] Result<Watch> watch() const;

  // Survives a loss of power. Only by whoever holds the lock.
  [[nodiscard]] Status write(const Ending& ending) const;
  [[nodiscard]] Status reserve_ending() const;
  // kNotFound: none yet. kDataLoss: it cannot be read.
  [[nodiscard]] Result<Ending> ending() const;

  // Held while the descriptor is open, in whatever process. kUnavailable: somebody else has it, or
  // the folder was removed.
  [[nodiscard]] Result<UniqueFd> try_lock() const;
  // Waits for whoever has it.
  [[nodiscard]] Result<UniqueFd> lock() const;

  // Somebody has removed it while it was open here, whether or not there is a new one of its name.
  [[nodiscard]] bool is_gone() const;
  // The folder and everything in it. Only of a member with a last word.
  [[nodiscard]] Status remove() const;

 private:
  MemberFolder(UniqueFd fd, std::filesystem::path path, MemberKey key)
      : fd_(std::move(fd)), path_(std::move(path)), key_(key) {}
  [[nodiscard]] Status make_lock() const;
  [[nodiscard]] Result<UniqueFd> lock(int operation) const;

  UniqueFd fd_;
  std::filesystem::path path_;
  MemberKey key_;
};

// What is left of folders whose removal was interrupted.
void remove_leftovers(const std::filesystem::path& members);

// Members that have a folder, in order. What has another name is left alone.
[[nodiscard]] Result<std::vector<MemberKey>> list_members(const std::filesystem::path& members);

}  // namespace divvy::run
