// The part of the API that is about queues, what users may have, what was used, and the store.
//
//   GET    /v1/queues                  how every queue stands
//   PUT    /v1/queues/{path}           sets one; for operators (queue_documents.h has the fields)
//   DELETE /v1/queues/{path}           back to what the configuration says
//   GET    /v1/quotas                  what users have and may have
//   PUT    /v1/quotas/{user}           likewise
//   DELETE /v1/quotas/{user}
//   GET    /v1/usage                   GPU hours by user, queue, job or hour; ?format=csv
//   POST   /v1/backup                  {"to": FILE}: a copy of the store while it runs
//
// Callable from many threads at once.
#pragma once

#include <functional>
#include <mutex>
#include <string>

#include "api/people.h"
#include "control/dispatcher.h"
#include "jobs/settings.h"
#include "net/http.h"
#include "store/database.h"
#include "store/settings_table.h"

namespace divvy::api {

class QueueRoutes {
 public:
  struct Parts {
    control::Dispatcher& dispatcher;
    store::Database& database;
    const People& people;
    // As the configuration has it, without what was set later.
    std::function<jobs::Settings()> configured;
  };
  // What `parts` refers to outlives it.
  explicit QueueRoutes(Parts parts) : parts_(std::move(parts)) {}

  [[nodiscard]] static bool handles(const std::string& path);
  [[nodiscard]] net::HttpResponse handle(const net::HttpRequest& request,
                                         const net::Caller& caller) const;
  // What the configuration has, with what was set later over it. Again after a reload.
  [[nodiscard]] Status apply() const;

 private:
  using Answer = Result<net::HttpResponse>;

  [[nodiscard]] Answer route(const net::HttpRequest& request, const model::Person& who) const;
  [[nodiscard]] Answer queues() const;
  [[nodiscard]] Answer quotas() const;
  [[nodiscard]] Answer put(store::SettingsKind kind, const std::string& name,
                           const std::string& body) const;
  [[nodiscard]] Answer remove(store::SettingsKind kind, const std::string& name) const;
  [[nodiscard]] Answer usage(const std::string& query, const model::Person& who) const;
  [[nodiscard]] Answer backup(const std::string& body) const;

  Parts parts_;
};

}  // namespace divvy::api
