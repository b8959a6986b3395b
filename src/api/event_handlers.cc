// What happens, to jobs and on machines: one table of events (store/event_table.h), and one bell
// that rings when there are new ones. Whoever watches gets them as they come; the events of
// machines are also there as pages, which wait for some.
#include <boost/json.hpp>
#include <chrono>

#include "api/answers.h"
#include "api/gpu_documents.h"
#include "api/handlers.h"
#include "api/job_documents.h"
#include "api/query.h"
#include "net/server_sent_events.h"
#include "store/event_table.h"

namespace divvy::api {
namespace {

// Whoever hears nothing for longer may take the server for dead.
constexpr std::chrono::milliseconds kHeartbeat = std::chrono::seconds(15);

struct Events {
  std::vector<store::EventRow> rows;  // behind the filter's `after`
  std::uint64_t last = 0;             // of all that there are
};

Result<Events> read_events(const Parts& parts, const store::EventFilter& filter) {
  return parts.database.read([&](store::Connection& connection) -> Result<Events> {
    store::EventTable table(connection);
    DIVVY_TRY(last, table.last());
    DIVVY_TRY(rows, table.list(filter));
    return Events{std::move(rows), last};
  });
}

net::ServerSentEvent sent_event(const store::EventRow& event) {
  const auto document = event.node.empty() ? stored_event_document(event) : event_document(event);
  return {std::to_string(event.number), event.kind, boost::json::serialize(document)};
}

}  // namespace

Answer watch_events(const Call& call) {
  DIVVY_TRY(wanted, parse_watch_query(call.request.query));
  store::EventFilter filter = wanted.filter;
  if (wanted.from_now) {
    DIVVY_TRY(now, read_events(call.parts, filter));
    filter.after = now.last;
  }
  if (const auto last = call.request.header("last-event-id"); !last.empty()) {
    DIVVY_TRY(header, Query::parse("after=" + std::string(last)));
    DIVVY_TRY(after, header.number("after"));
    filter.after = after.value_or(filter.after);
  }
  net::HttpResponse response;
  response.content_type = std::string(net::kEventStream);
  response.headers["cache-control"] = "no-store";
  response.stream = [&parts = call.parts, filter,
                     from_now = wanted.from_now](net::HttpStream& stream) mutable {
    if (from_now && !stream.send(net::write_heartbeat())) return;
    const EventBell::Listener listener(parts.bell);
    for (;;) {
      listener.clear();
      const auto events = read_events(parts, filter);
      if (!events) return;
      for (const store::EventRow& event : events->rows) {
        if (!stream.send(net::write_event(sent_event(event)))) return;
        filter.after = event.number;
      }
      if (events->rows.size() == filter.limit) continue;
      const auto waited = stream.caller().wait_for(listener.fd(), kHeartbeat);
      if (waited == net::Caller::Wait::kGone) return;
      if (waited == net::Caller::Wait::kTimeout && !stream.send(net::write_heartbeat())) return;
    }
  };
  return response;
}

Answer list_gpu_events(const Call& call) {
  DIVVY_TRY(wanted, parse_events_query(call.request.query));
  store::EventFilter filter;
  filter.after = wanted.since;
  filter.about = store::EventFilter::About::kMachines;
  filter.limit = store::EventFilter::kMostPerPage;
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(wanted.wait_seconds);
  const EventBell::Listener listener(call.parts.bell);
  for (;;) {
    listener.clear();
    DIVVY_TRY(events, read_events(call.parts, filter));
    const auto left =
        std::chrono::ceil<std::chrono::milliseconds>(until - std::chrono::steady_clock::now());
    const bool over =
        left.count() <= 0 || call.caller.wait_for(listener.fd(), {}) == net::Caller::Wait::kGone;
    if (!events.rows.empty() || over) {
      boost::json::array items;
      for (const store::EventRow& event : events.rows) items.push_back(event_document(event));
      return answer(200, headed("EventList", {{"last", events.last}, {"items", std::move(items)}}));
    }
    (void)call.caller.wait_for(listener.fd(), left);
  }
}

}  // namespace divvy::api
