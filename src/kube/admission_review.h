// The envelope: an AdmissionReview taken apart, and the answers to it. Internal to the room; pure.
#pragma once

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/value.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace divvy::kube {

struct AdmissionReview {
  std::string uid;
  std::string resource;     // "pods"
  std::string subresource;  // "status"; empty for the object itself
  std::string name_space;
  std::string operation;  // "CREATE"
  std::string user;
  boost::json::object object;      // empty where there is none
  boost::json::object old_object;  // of an UPDATE
};

[[nodiscard]] Result<AdmissionReview> read_admission_review(std::string_view bytes);

[[nodiscard]] std::string allowed(const AdmissionReview& review,
                                  const std::vector<std::string>& warnings = {});
// `operations`: a JSON patch (RFC 6902); an empty one changes nothing.
[[nodiscard]] std::string allowed_with(const AdmissionReview& review,
                                       const boost::json::array& operations,
                                       const std::vector<std::string>& warnings);
[[nodiscard]] std::string denied(const AdmissionReview& review, std::string_view message);

}  // namespace divvy::kube
