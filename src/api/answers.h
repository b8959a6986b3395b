// Answers of the local API: documents and problems as HTTP responses. Pure.
#pragma once

#include <boost/json.hpp>
#include <string_view>

#include "api/documents.h"
#include "net/http.h"

namespace divvy::api {

[[nodiscard]] inline net::HttpResponse answer(int status, const boost::json::object& document) {
  return {status, "application/json", boost::json::serialize(document) + "\n"};
}

[[nodiscard]] inline net::HttpResponse problem(const boost::json::object& document) {
  const int status = static_cast<int>(document.at("status").as_int64());
  return {status, "application/problem+json", boost::json::serialize(document) + "\n"};
}

[[nodiscard]] inline net::HttpResponse problem(const Error& error) {
  return problem(problem_document(http_status(error.code), to_string(error.code), error.message));
}

[[nodiscard]] inline boost::json::object headed(std::string_view kind) {
  return {{"apiVersion", "divvy/v1"}, {"kind", kind}};
}

}  // namespace divvy::api
