#include "api/answers.h"

#include <boost/json.hpp>

namespace divvy::api {

namespace json = boost::json;
using net::HttpResponse;

json::object problem_document(int status, std::string_view title, std::string_view detail) {
  return {{"type", "about:blank"}, {"title", title}, {"status", status}, {"detail", detail}};
}

int http_status(ErrorCode code) {
  switch (code) {
    case ErrorCode::kInvalidArgument:
    case ErrorCode::kOutOfRange:
      return 400;
    case ErrorCode::kNotFound:
      return 404;
    case ErrorCode::kAlreadyExists:
    case ErrorCode::kFailedPrecondition:
    case ErrorCode::kResourceExhausted:
      return 409;
    case ErrorCode::kPermissionDenied:
      return 403;
    case ErrorCode::kUnsupported:
      return 501;
    case ErrorCode::kUnavailable:
      return 503;
    case ErrorCode::kTimeout:
      return 504;
    case ErrorCode::kCancelled:
    case ErrorCode::kDataLoss:
    case ErrorCode::kIo:
    case ErrorCode::kInternal:
      break;
  }
  return 500;
}

HttpResponse answer(int status, const json::object& document) {
  return {status, "application/json", json::serialize(document) + "\n"};
}

HttpResponse created(std::string path, const json::object& document) {
  HttpResponse response = answer(201, document);
  response.headers["location"] = std::move(path);
  return response;
}

HttpResponse problem(const json::object& document) {
  const int status = static_cast<int>(document.at("status").as_int64());
  return {status, "application/problem+json", json::serialize(document) + "\n"};
}

HttpResponse problem(const Error& error) {
  return problem(problem_document(http_status(error.code), to_string(error.code), error.message));
}

json::object headed(std::string_view kind) { return {{"apiVersion", "divvy/v1"}, {"kind", kind}}; }

json::object headed(std::string_view kind, json::object content) {
  json::object document = headed(kind);
  for (auto& field : content) document[field.key()] = std::move(field.value());
  return document;
}

json::object listed(std::string_view kind, json::array items) {
  return headed(kind, {{"items", std::move(items)}});
}

}  // namespace divvy::api
