// Answers of the API as HTTP: documents, and problems as RFC 9457 wants them. Pure, callable from
// any thread.
#pragma once

#include <boost/json/fwd.hpp>
#include <string_view>

#include "base/result.h"
#include "net/http.h"

namespace divvy::api {

// RFC 9457.
[[nodiscard]] boost::json::object problem_document(int status, std::string_view title,
                                                   std::string_view detail);
[[nodiscard]] int http_status(ErrorCode code);

[[nodiscard]] net::HttpResponse answer(int status, const boost::json::object& document);
// 201, with the path of what was made.
[[nodiscard]] net::HttpResponse created(std::string path, const boost::json::object& document);
// `document` is a problem: problem_document(), or what a machine says that is in the way.
[[nodiscard]] net::HttpResponse problem(const boost::json::object& document);
[[nodiscard]] net::HttpResponse problem(const Error& error);
// The beginning of every document: schema and kind.
[[nodiscard]] boost::json::object headed(std::string_view kind);
[[nodiscard]] boost::json::object headed(std::string_view kind, boost::json::object content);
// A list: {"items": [...]} with a head.
[[nodiscard]] boost::json::object listed(std::string_view kind, boost::json::array items);

}  // namespace divvy::api
