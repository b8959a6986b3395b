// The simulator behind the API. The queue is copied, which takes its lock for as long as a list of
// the jobs does; everything after that happens on the copy, in the thread of the connection.
#include <boost/json.hpp>
#include <chrono>

#include "api/answers.h"
#include "api/handlers.h"
#include "api/what_if_document.h"
#include "store/job_table.h"

namespace divvy::api {
namespace {

constexpr std::uint32_t kPastJobs = 500;

Result<sim::Lengths> past_lengths(store::Database& database) {
  store::JobFilter filter;
  filter.states = {model::JobState::kSucceeded, model::JobState::kFailed};
  filter.limit = kPastJobs;
  DIVVY_TRY(page, database.read([&](store::Connection& connection) {
    return store::JobTable(connection).list(filter);
  }));
  std::vector<sim::PastJob> past;
  for (const model::Job& job : page.jobs) {
    if (!job.started || !job.ended || *job.ended < *job.started) continue;
    past.push_back({job.owner, std::chrono::ceil<model::Seconds>(*job.ended - *job.started)});
  }
  return sim::learn(std::move(past));
}

}  // namespace

Answer what_if(const Call& call) {
  DIVVY_TRY(request, parse_what_if_request(call.request.body));
  if (call.parts.what_if == nullptr) {
    return err(ErrorCode::kUnsupported, "this daemon does not simulate");
  }
  DIVVY_TRY(place, call.parts.what_if->enter(call.who.name));
  const WallTime now = call.parts.clock.wall_now();
  std::vector<std::string> queues;
  for (const jobs::QueueReport& queue : call.parts.dispatcher.queues())
    queues.push_back(queue.path);
  jobs::Snapshot snapshot = call.parts.dispatcher.snapshot(kMostWaitingSimulated);
  DIVVY_TRY(lengths, past_lengths(call.parts.database));
  DIVVY_TRY(document, what_if_document(std::move(snapshot), request, queues, lengths, now));
  return answer(200, document);
}

}  // namespace divvy::api
