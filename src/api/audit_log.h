// Who changed what: an entry of the audit log for each request that is not only about reading. It
// is handed to the store before the handler is called, so it is on the disk no later than whatever
// the handler commits, and nobody waits for it; what became of the request is added afterwards. An
// entry without that is of a request that still waits, or that the daemon did not live to answer.
#pragma once

#include <memory>
#include <optional>

#include "api/call.h"
#include "api/routes.h"
#include "store/audit_table.h"

namespace divvy::api {

// Of one request, one thread.
class AuditEntry {
 public:
  // Nothing where the request changes nothing.
  [[nodiscard]] static std::optional<AuditEntry> begin(const Parts& parts, const Route& route,
                                                       const net::HttpRequest& request,
                                                       const net::Caller& caller,
                                                       const Identity& who);
  void finish(const Answer& answer) const;

 private:
  AuditEntry(store::Database& database, store::AuditRow row)
      : database_(database), row_(std::move(row)) {}

  store::Database& database_;
  store::AuditRow row_;
  // Known to the store's thread, which writes both halves in the order in which they come.
  std::shared_ptr<std::uint64_t> number_ = std::make_shared<std::uint64_t>(0);
};

}  // namespace divvy::api
