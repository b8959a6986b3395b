// The body of a request, one JSON object whose fields are taken out one by one; what is left at the
// end is a mistake. For small bodies without objects inside: jobs are read by model/job_document.h.
// One thread.
#pragma once

#include <boost/json/object.hpp>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/units.h"
#include "model/job_spec.h"

namespace divvy::api {

class JsonFields {
 public:
  static Result<JsonFields> parse(std::string_view body);

  // Nothing where the field is missing or null; an error that names it where it is of another kind.
  Result<std::optional<std::string>> text(std::string_view name);
  Result<std::optional<bool>> flag(std::string_view name);
  Result<std::optional<std::uint32_t>> number(std::string_view name);
  Result<std::optional<Share>> share(std::string_view name);
  Result<std::optional<Bytes>> bytes(std::string_view name);
  Result<std::optional<model::Seconds>> seconds(std::string_view name);
  Result<std::vector<std::string>> texts(std::string_view name, std::size_t most = 64);

  // Refuses what nobody has asked for, with the field that was probably meant.
  [[nodiscard]] Status nothing_left() const;

 private:
  explicit JsonFields(boost::json::object object) : object_(std::move(object)) {}

  const boost::json::value* take(std::string_view name);

  boost::json::object object_;
  std::vector<std::string> known_;
};

}  // namespace divvy::api
