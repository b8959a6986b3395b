// Whom to tell when a job has ended: a webhook that its owner names. Plain values; any text is safe
// to pass. Pure, callable from any thread.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace divvy::model {

// "https://user:word@hooks.example:8443/divvy?key=1". What follows the host, and who one is there,
// may be a secret: logs have the origin and nothing else.
struct WebhookUrl {
  static constexpr std::size_t kLongest = 1000;

  bool secure = true;
  std::string user_info;  // "user:word", without the escapes of an address
  std::string host;       // in lower case, a number of IPv6 without its brackets
  std::uint16_t port = 0;
  std::string path;   // at least "/"
  std::string query;  // what follows the '?'

  [[nodiscard]] static Result<WebhookUrl> parse(std::string_view text);
  // As the header Host has it: without the port that goes without saying.
  [[nodiscard]] std::string authority() const;
  // "https://hooks.example:8443"
  [[nodiscard]] std::string origin() const;
};

// How a job has ended.
enum class JobEnd { kSucceeded, kFailed, kCancelled };
[[nodiscard]] std::string_view to_string(JobEnd end);
[[nodiscard]] Result<JobEnd> parse_job_end(std::string_view text);

struct Notify {
  std::string url;
  std::vector<JobEnd> on{JobEnd::kSucceeded, JobEnd::kFailed, JobEnd::kCancelled};
  friend bool operator==(const Notify&, const Notify&) = default;
};

// One sentence about the first thing that is wrong, beginning with the field ("notify.url: ...").
[[nodiscard]] Status check(const Notify& notify);

}  // namespace divvy::model
