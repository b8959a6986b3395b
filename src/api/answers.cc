#include "api/answers.h"

#include <boost/json.hpp>

#include "api/documents.h"

namespace divvy::api {

namespace json = boost::json;
using net::HttpResponse;

HttpResponse answer(int status, const json::object& document) {
  return {status, "application/json", json::serialize(document) + "\n"};
}

HttpResponse problem(const json::object& document) {
  const int status = static_cast<int>(document.at("status").as_int64());
  return {status, "application/problem+json", json::serialize(document) + "\n"};
}

HttpResponse problem(const Error& error) {
  return problem(problem_document(http_status(error.code), to_string(error.code), error.message));
}

json::object headed(std::string_view kind) { return {{"apiVersion", "divvy/v1"}, {"kind", kind}}; }

}  // namespace divvy::api
