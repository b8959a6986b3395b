// What pods, claims and Jobs say, as any bytes, read as jobs and written as documents; and what
// containers write, in pieces.
#include <boost/json.hpp>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/check.h"
#include "kube_api/cluster_jobs.h"
#include "kube_api/log_lines.h"

namespace {

namespace json = boost::json;

std::vector<json::object> objects_in(const json::object& from, std::string_view name) {
  std::vector<json::object> objects;
  const json::value* const list = from.if_contains(name);
  if (list == nullptr || !list->is_array()) return objects;
  for (const json::value& one : list->get_array()) {
    if (one.is_object()) objects.push_back(one.get_object());
  }
  return objects;
}

void read_lines(std::string_view text) {
  std::vector<divvy::kube_api::LogLine> lines;
  divvy::kube_api::LineSplitter splitter(1);
  for (std::size_t at = 0; at < text.size(); at += 7) splitter.take(text.substr(at, 7), lines);
  splitter.finish(lines);
  for (const auto& line : lines) {
    const std::string written = divvy::kube_api::to_text(line, {.timestamps = true, .ranks = true});
    DIVVY_CHECK(written.ends_with('\n'), "a line without its end");
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  read_lines(text);
  boost::system::error_code code;
  const json::value value = json::parse(text, code);
  if (code || !value.is_object()) return 0;
  divvy::kube_api::ClusterObjects objects;
  objects.pods = objects_in(value.get_object(), "pods");
  objects.claims = objects_in(value.get_object(), "claims");
  objects.jobs = objects_in(value.get_object(), "jobs");
  for (const divvy::kube_api::ClusterJob& job : divvy::kube_api::read_jobs(objects)) {
    const json::object document = divvy::kube_api::cluster_job_document(job);
    DIVVY_CHECK(document.contains("id"), "a job without a number");
  }
  return 0;
}
