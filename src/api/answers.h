// Answers of the API as HTTP: documents, and problems as RFC 9457 wants them. Pure, callable from
// any thread.
#pragma once

#include <boost/json/fwd.hpp>
#include <string_view>

#include "base/result.h"
#include "net/http.h"

namespace divvy::api {

[[nodiscard]] net::HttpResponse answer(int status, const boost::json::object& document);
// `document` is one of problem_document() or no_fit_document().
[[nodiscard]] net::HttpResponse problem(const boost::json::object& document);
[[nodiscard]] net::HttpResponse problem(const Error& error);
// The beginning of every document: schema and kind.
[[nodiscard]] boost::json::object headed(std::string_view kind);

}  // namespace divvy::api
