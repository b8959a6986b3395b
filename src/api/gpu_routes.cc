#include "api/gpu_routes.h"

#include <unistd.h>

#include <algorithm>
#include <boost/json.hpp>
#include <chrono>

#include "api/answers.h"
#include "api/documents.h"
#include "api/gpu_documents.h"
#include "base/text.h"

namespace divvy::api {
namespace {

namespace json = boost::json;
using net::HttpResponse;

constexpr std::string_view kGpus = "/v1/gpus";
constexpr std::string_view kEvents = "/v1/events";

Status may_change(const net::Caller& caller) {
  if (caller.uid() == 0 || caller.uid() == ::geteuid()) return {};
  return err(ErrorCode::kPermissionDenied,
             "only root and the user of divvyd may cordon, drain or uncordon GPUs; try sudo");
}

}  // namespace

bool GpuRoutes::handles(const std::string& path) {
  return path == kEvents || path == kGpus || path.starts_with(std::string(kGpus) + "/");
}

HttpResponse GpuRoutes::handle(const net::HttpRequest& request, const net::Caller& caller) const {
  if (request.path == kGpus && request.method == "GET") return list();
  if (request.path == kEvents && request.method == "GET") return events(request.query, caller);
  const auto words = split(std::string_view(request.path).substr(1), '/');  // v1 gpus GPU ACTION
  if (request.method == "POST" && words.size() == 4) {
    return change(std::string(words[2]), std::string(words[3]), request.body, caller);
  }
  const bool known = request.path == kGpus || request.path == kEvents || words.size() == 4;
  return problem(problem_document(
      known ? 405 : 404, known ? "method not allowed" : "not found",
      fmt::format("{} cannot be done to {}", escape_for_terminal(request.method.substr(0, 20)),
                  escape_for_terminal(request.path.substr(0, 100)))));
}

HttpResponse GpuRoutes::list() const {
  json::object document = headed("GpuHealthList");
  const node::SamplerReport sampler = care_.sampler();
  document["sampler"] =
      json::object{{"pid", sampler.pid > 0 ? json::value(sampler.pid) : json::value(nullptr)},
                   {"restarts", sampler.restarts}};
  const auto samples = care_.samples().all();
  const auto healths = care_.all();
  const node::Slices slices = tenants_.slices();
  json::array items;
  for (const node::GpuHealth& health : healths) {
    const node::SharedGpu* gpu = slices.find(health.uuid);
    if (gpu == nullptr) continue;
    const auto sample = std::ranges::find(samples, health.uuid, &node::GpuSample::uuid);
    items.push_back(health_document(*gpu, health, tenants_.holders(health.uuid),
                                    sample == samples.end() ? nullptr : &*sample));
  }
  document["items"] = std::move(items);
  return answer(200, document);
}

HttpResponse GpuRoutes::change(const std::string& gpu, const std::string& action,
                               const std::string& body, const net::Caller& caller) const {
  if (action != "cordon" && action != "drain" && action != "uncordon") {
    return problem(problem_document(
        404, "not found", "a GPU can be given the words cordon, drain and uncordon, no others"));
  }
  if (const Status allowed = may_change(caller); !allowed) return problem(allowed.error());
  const auto uuid = tenants_.slices().find_by_text(gpu);
  if (!uuid) return problem(uuid.error());
  const auto request = parse_cordon_request(body);
  if (!request) return problem(request.error());
  Status done;
  if (action == "uncordon") {
    done = care_.uncordon(*uuid);
  } else {
    std::optional<Duration> end_after;
    if (request->deadline_seconds) end_after = std::chrono::seconds(*request->deadline_seconds);
    if (end_after && action == "cordon") {
      return problem(Error{ErrorCode::kInvalidArgument,
                           "a cordon ends nobody and has no deadline; drain the GPU instead"});
    }
    done = care_.cordon(*uuid, request->reason, action == "drain", end_after);
  }
  if (!done) return problem(done.error());
  return list();
}

HttpResponse GpuRoutes::events(const std::string& query, const net::Caller& caller) const {
  const auto wanted = parse_events_query(query);
  if (!wanted) return problem(wanted.error());
  node::EventLog& log = care_.events();
  if (wanted->wait_seconds > 0) {
    const auto ready = log.when_after(wanted->since);
    (void)caller.wait_for(ready->get(), std::chrono::seconds(wanted->wait_seconds));
  }
  json::object document = headed("EventList");
  json::array items;
  for (const node::Event& event : log.since(wanted->since)) items.push_back(event_document(event));
  document["last"] = log.last();
  document["items"] = std::move(items);
  return answer(200, document);
}

}  // namespace divvy::api
