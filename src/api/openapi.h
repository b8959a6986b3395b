// The API described for programs (OpenAPI 3.1), served at /v1/openapi.json, and a check of real
// traffic against it, so that the description cannot say something else than the daemon does. Pure,
// callable from any thread.
#pragma once

#include <boost/json/fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace divvy::api {

[[nodiscard]] boost::json::object openapi_document();

// One request and its answer, as they went over the wire.
struct Traffic {
  std::string method;
  std::string path;
  std::string query;
  std::string request_body;  // Looked at only where it was accepted
  int status = 0;
  std::string content_type;
  std::string body;
};

// What is not as described: an operation, status, parameter or field that is missing in the
// document, or a value of another kind. Empty: nothing.
[[nodiscard]] std::vector<std::string> check_traffic(const boost::json::object& document,
                                                     const Traffic& traffic);

}  // namespace divvy::api
