// Reviews as the API server sends them, and what it does with the answers.
#pragma once

#include <boost/json.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "base/check.h"
#include "kube/admission.h"
#include "kube/json_patch.h"

namespace divvy::kube::testing {

struct ReviewParts {
  std::string resource = "pods";
  std::string operation = "CREATE";
  std::string name_space = "team-a";
  std::string user = "alice";
  boost::json::object old_object = {};
};

inline std::string review_of(const boost::json::object& object, const ReviewParts& parts = {}) {
  boost::json::object request{
      {"uid", "705ab4f5-6393-11e8-b7cc-42010a800002"},
      {"kind", boost::json::object{{"group", ""}, {"version", "v1"}, {"kind", "Pod"}}},
      {"resource",
       boost::json::object{{"group", ""}, {"version", "v1"}, {"resource", parts.resource}}},
      {"namespace", parts.name_space},
      {"operation", parts.operation},
      {"userInfo", boost::json::object{{"username", parts.user}}},
      {"object", object},
      {"dryRun", false}};
  if (!parts.old_object.empty()) request["oldObject"] = parts.old_object;
  return boost::json::serialize(boost::json::object{{"apiVersion", "admission.k8s.io/v1"},
                                                    {"kind", "AdmissionReview"},
                                                    {"request", std::move(request)}});
}

inline std::string from_base64(std::string_view text) {
  constexpr std::string_view kLetters =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string bytes;
  std::uint32_t bits = 0;
  int count = 0;
  for (const char letter : text) {
    if (letter == '=') break;
    bits = (bits << 6U) | static_cast<std::uint32_t>(kLetters.find(letter));
    count += 6;
    if (count < 8) continue;
    count -= 8;
    bytes += static_cast<char>((bits >> static_cast<unsigned>(count)) & 0xffU);
  }
  return bytes;
}

struct Answer {
  bool allowed = false;
  std::string message = {};
  boost::json::array patch = {};
  boost::json::array warnings = {};
};

inline Answer answer_of(const Result<std::string>& bytes) {
  DIVVY_CHECK(bytes.has_value(), "{}", bytes ? "" : bytes.error().message);
  const boost::json::object document = boost::json::parse(*bytes).as_object();
  DIVVY_CHECK(document.at("kind") == "AdmissionReview");
  const boost::json::object& response = document.at("response").as_object();
  DIVVY_CHECK(response.at("uid") == "705ab4f5-6393-11e8-b7cc-42010a800002");
  Answer answer{.allowed = response.at("allowed").as_bool()};
  if (!answer.allowed) answer.message = response.at("status").at("message").as_string();
  if (response.contains("patch")) {
    DIVVY_CHECK(response.at("patchType") == "JSONPatch");
    const std::string patch = from_base64(std::string(response.at("patch").as_string()));
    answer.patch = boost::json::parse(patch).as_array();
  }
  if (response.contains("warnings")) answer.warnings = response.at("warnings").as_array();
  return answer;
}

// The pod as the API server has it after the webhook.
inline boost::json::object patched(const boost::json::object& pod, const Answer& answer) {
  const auto result = apply_json_patch(pod, answer.patch);
  DIVVY_CHECK(result.has_value(), "{}", result ? "" : result.error().message);
  return result->as_object();
}

}  // namespace divvy::kube::testing
