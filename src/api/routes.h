// The routes of the API as one table (routes.cc): a row says what can be asked for, who may, what
// answers it and how it is described. Api finds the row of a request and takes the permission step
// that it names before the handler is called; openapi.cc makes the document from the same rows.
// Constants, for any thread.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <variant>

#include "api/call.h"

namespace divvy::api {

// By what stands in the path: nothing, a job (its number), a name, a queue.
using OpenHandler = Answer (*)();  // has no Call: it can say nothing about anybody
// Has no Call either, but what was asked: for those who are about to show who they are.
using StrangerHandler = Answer (*)(const StrangerCall&);
using PlainHandler = Answer (*)(const Call&);
using JobHandler = Answer (*)(const Call&, const model::Job&);
using NameHandler = Answer (*)(const Call&, const std::string&);
using QueueHandler = Answer (*)(const Call&, const QueuePath&);
using Handler =
    std::variant<OpenHandler, PlainHandler, JobHandler, NameHandler, QueueHandler, StrangerHandler>;

// A permission that cannot be left out of a row.
struct Needs {
  // NOLINTNEXTLINE(google-explicit-constructor): a row names the permission, and no more
  constexpr Needs(Permission needed) : permission(needed) {}
  Permission permission;
};

// How it is described (kinds of values: openapi_schemas.h).
struct Description {
  std::string_view query = {};         // "limit:integer after:integer"
  std::string_view header = {};        // that it knows
  std::string_view request = {};       // Schema of the body; empty: none
  bool may_be_empty = false;           // the body
  int status = 200;                    // When it works
  int other_status = 0;                // Works too, with the same answer
  std::string_view answer = {};        // Schema of the answer, or a media type with a slash in it
  std::string_view other_answer = {};  // Likewise, where the query asks for it
  // Why it may be refused, beside what any request may be refused for: "404 409"
  std::string_view refusals = {};
};

enum class From : std::uint8_t {
  kAnywhere,
  kSocket,  // only those on the machine
};

struct Route {
  std::string_view method;
  std::string_view path;  // "/v1/jobs/{id}/logs"
  Needs needs;
  Handler handler;
  std::string_view id;
  std::string_view text;
  Description described;
  From from = From::kAnywhere;
  bool only_asks = false;  // Whatever its method: nothing is changed, so nothing is audited
};

[[nodiscard]] std::span<const Route> routes();

}  // namespace divvy::api
