// Templates are written by operators and users. Whatever is in one, it is refused with words and
// its place, or makes a document that reads as a job or is refused with words.
#include <fmt/format.h>

#include <boost/json.hpp>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/check.h"
#include "cli/job_template.h"
#include "model/job_document.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto made = divvy::cli::read_template(text, "job", "job.yaml");
  if (!made) {
    DIVVY_CHECK(made.error().message.starts_with("job.yaml:"), "{}", made.error().message);
    return 0;
  }
  std::vector<std::string> set;
  for (const auto& [key, value] : made->values) set.push_back(fmt::format("{0}={{{0}}}3", key));
  const auto file = divvy::cli::fill_in(*made, set);
  DIVVY_CHECK(file.has_value(), "{}", file.error().message);
  const auto spec = divvy::model::read_job_spec(boost::json::serialize(file->document()));
  DIVVY_CHECK(spec || !file->placed(spec.error()).message.empty(), "an error without words");
  return 0;
}
