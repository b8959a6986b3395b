#include "control/secrets.h"

#include <algorithm>

#include "base/text.h"
#include "model/name.h"

namespace divvy::control {
namespace {

// Neither a user's name nor a secret's has a slash.
std::string place_of(const std::string& owner, const std::string& name) {
  return owner + "/" + name;
}

}  // namespace

Status Secrets::open_box() {
  if (box_) return {};
  DIVVY_TRY(box, store::SecretBox::open(key_file_));
  box_ = std::move(box);
  return {};
}

Result<std::string> Secrets::seal(const std::string& place, const std::string& value) {
  const std::lock_guard lock(mutex_);
  DIVVY_RETURN_IF_ERROR(open_box());
  return box_->seal(place, value);
}

Result<std::string> Secrets::unseal(const std::string& place, const std::string& sealed) {
  const std::lock_guard lock(mutex_);
  DIVVY_RETURN_IF_ERROR(open_box());
  return box_->unseal(place, sealed);
}

Result<store::SecretRecord> Secrets::set(const std::string& owner, const std::string& name,
                                         const std::string& value) {
  DIVVY_RETURN_IF_ERROR(with_context(model::check_name("secret", name), "name"));
  if (value.empty()) return err(ErrorCode::kInvalidArgument, "value: it is empty");
  if (value.size() > kLongest) {
    return err(ErrorCode::kInvalidArgument, "value: it is longer than {} bytes", kLongest);
  }
  if (value.find('\0') != std::string::npos) {
    return err(ErrorCode::kInvalidArgument, "value: no variable can hold a zero byte");
  }
  DIVVY_TRY(sealed, seal(place_of(owner, name), value));
  store::SecretRecord record{name, clock_.wall_now()};
  DIVVY_RETURN_IF_ERROR(database_.commit([&](store::Connection& connection) -> Status {
    store::SecretTable table(connection);
    DIVVY_TRY(there, table.list(owner));
    if (there.size() >= kMostOfOneOwner &&
        std::ranges::find(there, name, &store::SecretRecord::name) == there.end()) {
      return err(ErrorCode::kFailedPrecondition,
                 "you have {} secrets, and that is as many as there may be; delete one",
                 there.size());
    }
    return table.put(owner, record, sealed);
  }));
  return record;
}

Status Secrets::remove(const std::string& owner, const std::string& name) {
  return database_.commit([&](store::Connection& connection) -> Status {
    DIVVY_TRY(removed, store::SecretTable(connection).remove(owner, name));
    if (removed) return {};
    return err(ErrorCode::kNotFound, "you have no secret {}; divvy secret list shows yours",
               escape_for_terminal(name.substr(0, 128)));
  });
}

Result<std::vector<store::SecretRecord>> Secrets::list(const std::string& owner) {
  return database_.read(
      [&](store::Connection& connection) { return store::SecretTable(connection).list(owner); });
}

Status Secrets::check(const std::string& owner,
                      const std::map<std::string, std::string>& variables) {
  if (variables.empty()) return {};
  DIVVY_TRY(there, list(owner));
  for (const auto& [variable, name] : variables) {
    if (std::ranges::find(there, name, &store::SecretRecord::name) != there.end()) continue;
    return err(ErrorCode::kInvalidArgument,
               "secrets.{0}: {1} has no secret {2}; divvy secret set {2} makes one", variable,
               owner, name);
  }
  return {};
}

Result<std::map<std::string, std::string>> Secrets::open(
    const std::string& owner, const std::map<std::string, std::string>& variables) {
  std::map<std::string, std::string> values;
  for (const auto& [variable, name] : variables) {
    DIVVY_TRY(sealed, database_.read([&](store::Connection& connection) {
      return store::SecretTable(connection).sealed(owner, name);
    }));
    if (!sealed) {
      return err(ErrorCode::kFailedPrecondition,
                 "the secret {0} of {1} is gone; divvy secret set {0} makes it again", name, owner);
    }
    auto value = unseal(place_of(owner, name), *sealed);
    if (!value && value.error().code != ErrorCode::kDataLoss) {
      // The key cannot be read just now, which is no fault of the job.
      return err(ErrorCode::kUnavailable, "the secret {} of {}: {}", name, owner,
                 value.error().message);
    }
    if (!value) {
      return err(ErrorCode::kFailedPrecondition,
                 "the secret {0} of {1} cannot be opened: {2}; divvy secret set {0} makes it again",
                 name, owner, value.error().message);
    }
    values.emplace(variable, *std::move(value));
  }
  return values;
}

}  // namespace divvy::control
