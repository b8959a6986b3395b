#include "store/service_table.h"

namespace divvy::store {
namespace {

#define DIVVY_SERVICE_COLUMNS "name, owner, port, revision, document"

ServiceRow read_row(const Statement& row) {
  return {row.text(0), row.text(1), static_cast<std::uint16_t>(row.integer(2)), row.integer(3),
          row.text(4)};
}

tl::unexpected<Error> taken(const ServiceRow& row) {
  return err(ErrorCode::kAlreadyExists,
             "there is a service {}, or one at port {}, already; divvy serve list shows them",
             row.name, row.port);
}

}  // namespace

Status ServiceTable::insert(const ServiceRow& row) {
  DIVVY_TRY(insertion, connection_.prepare("INSERT INTO services (" DIVVY_SERVICE_COLUMNS
                                           ") VALUES (?, ?, ?, ?, ?)"));
  insertion.add(row.name).add(row.owner).add(row.port).add(row.revision).add(row.document);
  Status done = insertion.run();
  if (!done && done.error().code == ErrorCode::kAlreadyExists) return taken(row);
  return done;
}

Result<bool> ServiceTable::update(const ServiceRow& row) {
  DIVVY_TRY(change, connection_.prepare("UPDATE services SET owner = ?, port = ?, revision = "
                                        "revision + 1, document = ? WHERE name = ? AND revision "
                                        "= ?"));
  change.add(row.owner).add(row.port).add(row.document).add(row.name).add(row.revision);
  const Status done = change.run();
  if (!done && done.error().code == ErrorCode::kAlreadyExists) return taken(row);
  if (!done) return err(done.error());
  return connection_.changes() > 0;
}

Status ServiceTable::remove(std::string_view name) {
  DIVVY_TRY(removal, connection_.prepare("DELETE FROM services WHERE name = ?"));
  return removal.add(name).run();
}

Result<std::optional<ServiceRow>> ServiceTable::find(std::string_view name) {
  DIVVY_TRY(query,
            connection_.prepare("SELECT " DIVVY_SERVICE_COLUMNS " FROM services WHERE name = ?"));
  DIVVY_TRY(row, query.add(name).step());
  if (!row) return std::nullopt;
  return read_row(query);
}

Result<std::vector<ServiceRow>> ServiceTable::list() {
  DIVVY_TRY(query,
            connection_.prepare("SELECT " DIVVY_SERVICE_COLUMNS " FROM services ORDER BY name"));
  std::vector<ServiceRow> rows;
  for (;;) {
    DIVVY_TRY(row, query.step());
    if (!row) return rows;
    rows.push_back(read_row(query));
  }
}

}  // namespace divvy::store
