#include "store/subject_table.h"

namespace divvy::store {

Result<std::optional<std::string>> SubjectTable::find(std::string_view issuer,
                                                      std::string_view subject) {
  DIVVY_TRY(query,
            connection_.prepare("SELECT user FROM subjects WHERE issuer = ? AND subject = ?"));
  DIVVY_TRY(row, query.add(issuer).add(subject).step());
  return row ? std::optional(query.text(0)) : std::nullopt;
}

Result<std::optional<std::string>> SubjectTable::subject_of(std::string_view issuer,
                                                            std::string_view user) {
  DIVVY_TRY(query,
            connection_.prepare("SELECT subject FROM subjects WHERE issuer = ? AND user = ?"));
  DIVVY_TRY(row, query.add(issuer).add(user).step());
  return row ? std::optional(query.text(0)) : std::nullopt;
}

Status SubjectTable::add(std::string_view issuer, std::string_view subject, std::string_view user,
                         WallTime at) {
  DIVVY_TRY(insertion, connection_.prepare(
                           "INSERT INTO subjects (issuer, subject, user, at) VALUES (?, ?, ?, ?)"));
  Status done = insertion.add(issuer).add(subject).add(user).add(at).run();
  if (!done && done.error().code == ErrorCode::kAlreadyExists) {
    return err(ErrorCode::kAlreadyExists, "another account signs in as {}", user);
  }
  return done;
}

Status SubjectTable::remove(std::string_view issuer, std::string_view user) {
  DIVVY_TRY(removal, connection_.prepare("DELETE FROM subjects WHERE issuer = ? AND user = ?"));
  return removal.add(issuer).add(user).run();
}

}  // namespace divvy::store
