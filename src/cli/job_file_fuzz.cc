// Job files come from anywhere. Whatever is in one, it is refused with words or becomes a document
// that reads as a job or is refused with words.
#include <boost/json.hpp>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/check.h"
#include "cli/job_file.h"
#include "model/job_document.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto file = divvy::cli::JobFile::read(text, "job.yaml");
  if (!file) {
    DIVVY_CHECK(file.error().message.starts_with("job.yaml:"), "{}", file.error().message);
    return 0;
  }
  const auto spec = divvy::model::read_job_spec(boost::json::serialize(file->document()));
  if (!spec) {
    DIVVY_CHECK(!file->placed(spec.error()).message.empty(), "an error without words");
  }
  return 0;
}
