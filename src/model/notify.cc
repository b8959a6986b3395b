#include "model/notify.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>

#include "base/text.h"

namespace divvy::model {
namespace {

// In the order of JobEnd.
constexpr std::array<std::string_view, 3> kEndNames{"succeeded", "failed", "cancelled"};

bool is_letter_or_digit(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

bool is_one_of(char c, std::string_view signs) {
  return is_letter_or_digit(c) || signs.find(c) != std::string_view::npos;
}

// What may stand in a path or a query without ending the line of a request.
bool is_path_sign(char c) { return is_one_of(c, "/-._~%!$&'()*+,;=:@?"); }
bool is_user_sign(char c) { return is_one_of(c, "-._~%!$&'()*+,;=:"); }
bool is_name_sign(char c) { return is_one_of(c, "-._"); }
bool is_ipv6_sign(char c) { return is_one_of(c, ":."); }

int hex_value(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

std::optional<std::string> unescape(std::string_view text) {
  std::string plain;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%') {
      plain += text[i];
      continue;
    }
    const int high = i + 2 < text.size() ? hex_value(text[i + 1]) : -1;
    const int low = i + 2 < text.size() ? hex_value(text[i + 2]) : -1;
    if (high < 0 || low < 0) return std::nullopt;
    plain += static_cast<char>(high * 16 + low);
    i += 2;
  }
  return plain;
}

// None of them shows the address: what is wrong with it may be its secret.
tl::unexpected<Error> refuse(std::string_view why) {
  return err(ErrorCode::kInvalidArgument, "{}", why);
}

// "hooks.example:8443", "[::1]"
Status read_host(std::string_view text, WebhookUrl& url) {
  std::string_view port;
  const bool is_number = text.starts_with('[');
  const std::size_t end = is_number ? text.find(']') : text.find(':');
  if (is_number) {
    if (end == std::string_view::npos) return refuse("the ] of its host is missing");
    url.host = text.substr(1, end - 1);
    port = text.substr(end + 1);
  } else {
    url.host = text.substr(0, end);
    if (end != std::string_view::npos) port = text.substr(end);
  }
  const bool is_host =
      !url.host.empty() && std::ranges::all_of(url.host, is_number ? is_ipv6_sign : is_name_sign);
  if (!is_host) return refuse("it names no host; write it like https://hooks.example/divvy");
  url.host = to_lower(url.host);
  url.port = url.secure ? 443 : 80;
  if (port.empty()) return {};
  const auto read = std::from_chars(port.data() + 1, port.data() + port.size(), url.port);
  if (port.front() != ':' || read.ec != std::errc() || read.ptr != port.data() + port.size() ||
      url.port == 0) {
    return refuse("its port is no number from 1 to 65535");
  }
  return {};
}

}  // namespace

Result<WebhookUrl> WebhookUrl::parse(std::string_view text) {
  constexpr std::string_view kHttp = "http://";
  constexpr std::string_view kHttps = "https://";
  WebhookUrl url;
  if (text.size() > kLongest) {
    return refuse(fmt::format("it is longer than {} characters", kLongest));
  }
  url.secure = text.starts_with(kHttps);
  if (!url.secure && !text.starts_with(kHttp)) {
    return refuse("it has to begin with https:// or http://");
  }
  const std::string_view rest = text.substr(url.secure ? kHttps.size() : kHttp.size());
  const std::size_t end = std::min(rest.find_first_of("/?#"), rest.size());
  std::string_view host = rest.substr(0, end);
  const std::string_view behind = rest.substr(end);
  if (const std::size_t at = host.rfind('@'); at != std::string_view::npos) {
    const auto user_info = unescape(host.substr(0, at));
    if (!user_info || !std::ranges::all_of(host.substr(0, at), is_user_sign)) {
      return refuse("there is a sign before its @ that has to be written as %XX");
    }
    url.user_info = *user_info;
    host.remove_prefix(at + 1);
  }
  DIVVY_RETURN_IF_ERROR(read_host(host, url));
  if (!std::ranges::all_of(behind, is_path_sign)) {
    return refuse("there is a sign behind its host that has to be written as %XX");
  }
  const std::size_t question = behind.find('?');
  url.path = behind.substr(0, question);
  if (url.path.empty()) url.path = "/";
  if (question != std::string_view::npos) url.query = behind.substr(question + 1);
  return url;
}

std::string WebhookUrl::authority() const {
  const std::string name = host.find(':') == std::string::npos ? host : "[" + host + "]";
  return port == (secure ? 443 : 80) ? name : fmt::format("{}:{}", name, port);
}

std::string WebhookUrl::origin() const { return (secure ? "https://" : "http://") + authority(); }

std::string_view to_string(JobEnd end) { return kEndNames[static_cast<std::size_t>(end)]; }

Result<JobEnd> parse_job_end(std::string_view text) {
  const auto* const found = std::ranges::find(kEndNames, text);
  if (found != kEndNames.end()) return static_cast<JobEnd>(found - kEndNames.begin());
  return err(ErrorCode::kInvalidArgument, "\"{}\" is no end of a job; write {}",
             escape_for_terminal(text.substr(0, 40)), fmt::join(kEndNames, " or "));
}

Status check(const Notify& notify) {
  if (const auto url = WebhookUrl::parse(notify.url); !url) {
    return err(with_context(url.error(), "notify.url"));
  }
  if (notify.on.empty()) {
    return err(ErrorCode::kInvalidArgument,
               "notify.on: no end is named; write {}, or leave it out for all of them",
               fmt::join(kEndNames, ", "));
  }
  return {};
}

}  // namespace divvy::model
