// Files of apps are written by operators and users. Whatever is in one, it is refused with words or
// makes a document that reads as a job or is refused with words.
#include <boost/json.hpp>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/check.h"
#include "cli/app_template.h"
#include "model/job_document.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto app = divvy::cli::read_app(text, "app", "app.yaml");
  if (!app) {
    DIVVY_CHECK(app.error().message.starts_with("app.yaml:"), "{}", app.error().message);
    return 0;
  }
  boost::json::object document;
  if (!divvy::cli::put_app(*app, {.token = "t", .arguments = {}, .published = {}}, document)) {
    return 0;
  }
  const auto spec = divvy::model::read_job_spec(boost::json::serialize(document));
  DIVVY_CHECK(spec || !spec.error().message.empty(), "an error without words");
  return 0;
}
