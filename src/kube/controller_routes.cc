#include "kube/controller_routes.h"

#include <boost/json.hpp>

#include "base/text.h"
#include "kube/json_view.h"
#include "kube/time_stamp.h"

namespace divvy::kube {
namespace {

namespace json = boost::json;

constexpr std::string_view kPods = "/v1/pods/";
constexpr std::string_view kBearer = "Bearer ";
constexpr std::size_t kLongestName = 253;

// As names of namespaces and pods are: safe in a path.
bool is_name(std::string_view text) {
  if (text.empty() || text.size() > kLongestName) return false;
  return text.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789-.") == std::string_view::npos;
}

int status_of(ErrorCode code) {
  switch (code) {
    case ErrorCode::kInvalidArgument:
      return 400;
    case ErrorCode::kPermissionDenied:
      return 403;
    case ErrorCode::kNotFound:
      return 404;
    case ErrorCode::kUnavailable:
    case ErrorCode::kTimeout:
      return 503;
    default:
      return 500;
  }
}

net::HttpResponse problem(int status, const std::string& detail) {
  net::HttpResponse response;
  response.status = status;
  response.content_type = "application/problem+json";
  response.body = json::serialize(json::object{{"status", status}, {"detail", detail}});
  return response;
}

net::HttpResponse problem(const Error& error) {
  return problem(status_of(error.code), error.message);
}

}  // namespace

bool ControllerRoutes::serves(std::string_view path) { return path.starts_with(kPods); }

Status ControllerRoutes::check_caller(const net::HttpRequest& request, const std::string& space,
                                      const std::string& name) const {
  const std::string_view header = request.header("authorization");
  if (!header.starts_with(kBearer)) {
    return err(ErrorCode::kPermissionDenied,
               "no token: send one of a service account as \"authorization: Bearer TOKEN\" "
               "(kubectl create token NAME)");
  }
  const std::string token(header.substr(kBearer.size()));
  DIVVY_TRY(review, api_.create("/apis/authentication.k8s.io/v1/tokenreviews",
                                {{"apiVersion", "authentication.k8s.io/v1"},
                                 {"kind", "TokenReview"},
                                 {"spec", json::object{{"token", token}}}}));
  if (!true_at(review, {"status", "authenticated"})) {
    return err(ErrorCode::kPermissionDenied, "Kubernetes does not know this token");
  }
  const json::object& user = object_at(review, {"status", "user"});
  json::object spec{
      {"user", text_at(user, {"username"})},
      {"groups", array_at(user, {"groups"})},
      {"resourceAttributes",
       json::object{{"namespace", space}, {"name", name}, {"verb", "get"}, {"resource", "pods"}}}};
  DIVVY_TRY(access, api_.create("/apis/authorization.k8s.io/v1/subjectaccessreviews",
                                {{"apiVersion", "authorization.k8s.io/v1"},
                                 {"kind", "SubjectAccessReview"},
                                 {"spec", std::move(spec)}}));
  if (true_at(access, {"status", "allowed"})) return {};
  return err(ErrorCode::kPermissionDenied, "{} may not get pods in {}",
             escape_for_terminal(text_at(user, {"username"})), space);
}

net::HttpResponse ControllerRoutes::handle(const net::HttpRequest& request) const {
  const auto words = split(std::string_view(request.path).substr(1), '/');
  if (words.size() != 5 || words[4] != "explain" || !is_name(words[2]) || !is_name(words[3])) {
    return problem(404, "there is GET /v1/pods/NAMESPACE/NAME/explain");
  }
  if (request.method != "GET") return problem(405, "this can only be read");
  const std::string space(words[2]);
  const std::string name(words[3]);
  if (const Status allowed = check_caller(request, space, name); !allowed) {
    return problem(allowed.error());
  }
  const auto report = controller_.explain(space, name);
  if (!report) return problem(report.error());
  if (!*report) {
    return problem(404, fmt::format("there is no pod {}/{} that asks for a GPU of Divvy's; "
                                    "kubectl -n {} get pod {} shows what there is",
                                    space, name, space, name));
  }
  const PodReport& pod = **report;
  json::object document{{"namespace", space}, {"name", name},        {"placed", pod.placed},
                        {"node", pod.node},   {"message", pod.text}, {"details", pod.wait.details}};
  if (!pod.placed && pod.node.empty()) document["kind"] = jobs::to_string(pod.wait.kind);
  if (pod.wait.place) {
    document["place"] = *pod.wait.place;
    document["inLine"] = pod.wait.in_line;
  }
  if (pod.wait.starts) document["starts"] = time_stamp(*pod.wait.starts);
  net::HttpResponse response;
  response.body = json::serialize(document);
  return response;
}

}  // namespace divvy::kube
