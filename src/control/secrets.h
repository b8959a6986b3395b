// Secrets of users: tokens for hubs and registries that their jobs get as variables. A user writes
// them and never reads them again; what is shown are their names. On the disk they are sealed
// (store/secret_box.h), and they go to the machine that starts a member when it does, and nowhere
// else. Callable from any thread; changes are on the disk when they return.
#pragma once

#include <filesystem>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "store/database.h"
#include "store/secret_box.h"
#include "store/secret_table.h"

namespace divvy::control {

class Secrets {
 public:
  static constexpr std::size_t kMostOfOneOwner = 100;
  static constexpr std::size_t kLongest = 16'384;

  // The key is made when the first secret is set. What is referred to outlives it.
  Secrets(store::Database& database, const Clock& clock, std::filesystem::path key_file)
      : database_(database), clock_(clock), key_file_(std::move(key_file)) {}

  // Instead of the one of that name.
  [[nodiscard]] Result<store::SecretRecord> set(const std::string& owner, const std::string& name,
                                                const std::string& value);
  // kNotFound.
  [[nodiscard]] Status remove(const std::string& owner, const std::string& name);
  [[nodiscard]] Result<std::vector<store::SecretRecord>> list(const std::string& owner);

  // Whether the owner has what these variables (by name) are to hold; kInvalidArgument names the
  // first that is not there.
  [[nodiscard]] Status check(const std::string& owner,
                             const std::map<std::string, std::string>& variables);
  // What they hold. kFailedPrecondition: one is gone, or was sealed with another key. kUnavailable:
  // the key cannot be read.
  [[nodiscard]] Result<std::map<std::string, std::string>> open(
      const std::string& owner, const std::map<std::string, std::string>& variables);

 private:
  [[nodiscard]] Result<std::string> seal(const std::string& place, const std::string& value);
  [[nodiscard]] Result<std::string> unseal(const std::string& place, const std::string& sealed);
  [[nodiscard]] Status open_box();  // with the lock

  store::Database& database_;
  const Clock& clock_;
  std::filesystem::path key_file_;

  std::mutex mutex_;  // of what follows
  std::optional<store::SecretBox> box_;
};

}  // namespace divvy::control
