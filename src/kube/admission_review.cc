#include "kube/admission_review.h"

#include <boost/json.hpp>
#include <cstdint>

#include "base/base64.h"
#include "kube/json_view.h"

namespace divvy::kube {
namespace {

namespace json = boost::json;

// A pod is some ten deep, and what its managedFields say about it a little more.
constexpr std::size_t kDeepest = 64;
// Kubernetes cuts warnings that are longer than this, all of them together at 4096.
constexpr std::size_t kLongestWarning = 256;
constexpr std::size_t kMostWarnings = 12;
constexpr int kInvalid = 422;

tl::unexpected<Error> no_review(std::string_view why) {
  return err(ErrorCode::kInvalidArgument, "this is no AdmissionReview: {}", why);
}

json::object take_object(json::object& object, std::string_view name) {
  json::value* value = object.if_contains(name);
  return value != nullptr && value->is_object() ? std::move(value->get_object()) : json::object{};
}

std::string answer(json::object response) {
  return json::serialize(json::object{{"apiVersion", "admission.k8s.io/v1"},
                                      {"kind", "AdmissionReview"},
                                      {"response", std::move(response)}});
}

json::object permission(const AdmissionReview& review, const std::vector<std::string>& warnings) {
  json::object response{{"uid", review.uid}, {"allowed", true}};
  json::array texts;
  for (const std::string& warning : warnings) {
    if (texts.size() == kMostWarnings) break;
    texts.emplace_back(warning.substr(0, kLongestWarning));
  }
  if (!texts.empty()) response["warnings"] = std::move(texts);
  return response;
}

}  // namespace

Result<AdmissionReview> read_admission_review(std::string_view bytes) {
  boost::system::error_code code;
  json::parse_options options;
  options.max_depth = kDeepest;
  json::value document = json::parse(bytes, code, {}, options);
  if (code) return no_review(code.message());
  if (!document.is_object()) return no_review("it is no JSON object");
  json::object& outer = document.get_object();
  if (text_at(outer, {"kind"}) != "AdmissionReview" ||
      text_at(outer, {"apiVersion"}) != "admission.k8s.io/v1") {
    return no_review("its kind is not AdmissionReview of admission.k8s.io/v1");
  }
  json::object request = take_object(outer, "request");
  AdmissionReview review;
  review.uid = text_at(request, {"uid"});
  if (review.uid.empty()) return no_review("request.uid is missing");
  review.resource = text_at(request, {"resource", "resource"});
  review.subresource = text_at(request, {"subResource"});
  review.name_space = text_at(request, {"namespace"});
  review.operation = text_at(request, {"operation"});
  review.user = text_at(request, {"userInfo", "username"});
  review.object = take_object(request, "object");
  review.old_object = take_object(request, "oldObject");
  return review;
}

std::string allowed(const AdmissionReview& review, const std::vector<std::string>& warnings) {
  return answer(permission(review, warnings));
}

std::string allowed_with(const AdmissionReview& review, const json::array& operations,
                         const std::vector<std::string>& warnings) {
  json::object response = permission(review, warnings);
  if (!operations.empty()) {
    response["patchType"] = "JSONPatch";
    response["patch"] = encode_base64(json::serialize(operations));
  }
  return answer(std::move(response));
}

std::string denied(const AdmissionReview& review, std::string_view message) {
  return answer({{"uid", review.uid},
                 {"allowed", false},
                 {"status", json::object{{"code", kInvalid}, {"message", message}}}});
}

}  // namespace divvy::kube
