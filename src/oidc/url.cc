#include "oidc/url.h"

#include <algorithm>
#include <cstdint>

#include "base/text.h"

namespace divvy::oidc {
namespace {

constexpr std::string_view kUrlDigits =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

bool is_letter_or_digit(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

bool is_host_sign(char c) {
  return is_letter_or_digit(c) || c == '.' || c == '-' || c == ':' || c == '[' || c == ']';
}

// What may stand in a path or query without being something else to somebody on the way.
bool is_path_sign(char c) {
  constexpr std::string_view kOthers = "/-._~%!$&'()*+,;=:@?";
  return is_letter_or_digit(c) || kOthers.find(c) != std::string_view::npos;
}

int base64url_value(char c) {
  const std::size_t at = kUrlDigits.find(c);
  return at == std::string_view::npos ? -1 : static_cast<int>(at);
}

}  // namespace

Result<Url> Url::parse(std::string_view text) {
  const auto refuse = [text](std::string_view why) {
    return err(ErrorCode::kInvalidArgument, "\"{}\" {}", escape_for_terminal(text.substr(0, 100)),
               why);
  };
  constexpr std::string_view kHttp = "http://";
  constexpr std::string_view kHttps = "https://";
  Url url;
  url.secure = text.starts_with(kHttps);
  if (text.size() > kLongest) return refuse("is too long for an address");
  if (!url.secure && !text.starts_with(kHttp)) {
    return refuse("is no address of a provider; it begins with https://");
  }
  const std::string_view rest = text.substr(url.secure ? kHttps.size() : kHttp.size());
  const std::size_t end = std::min(rest.find_first_of("/?#"), rest.size());
  const std::string_view host = rest.substr(0, end);
  const std::string_view behind = rest.substr(end);
  if (host.empty() || !std::ranges::all_of(host, is_host_sign)) return refuse("names no host");
  if (!std::ranges::all_of(behind, is_path_sign)) {
    return refuse("has a sign in it that no address of a provider has");
  }
  const std::size_t colon = host.rfind(':');
  const bool has_port = colon != std::string_view::npos && !host.ends_with(']');
  const std::string with_port =
      has_port ? std::string(host) : fmt::format("{}:{}", host, url.secure ? 443 : 80);
  auto address = net::TcpAddress::parse(with_port);
  if (!address || address->host.empty() || address->port == 0) return refuse("names no host");
  url.address = *std::move(address);
  const bool is_usual = url.address.port == (url.secure ? 443 : 80);
  url.host = to_lower(has_port && is_usual ? host.substr(0, colon) : host);
  const std::size_t question = behind.find('?');
  url.path = behind.substr(0, question);
  if (url.path.empty()) url.path = "/";
  if (question != std::string_view::npos) url.query = behind.substr(question + 1);
  if (!url.secure && !url.is_loopback()) {
    return refuse("crosses a network in the clear; a provider is asked by https://");
  }
  return url;
}

bool Url::is_loopback() const {
  const std::string& name = address.host;
  const bool is_number = name.find_first_not_of("0123456789.") == std::string::npos;
  return name == "localhost" || name == "::1" || (is_number && name.starts_with("127."));
}

std::string percent_encode(std::string_view text) {
  std::string encoded;
  encoded.reserve(text.size());
  for (const char c : text) {
    if (is_letter_or_digit(c) || c == '-' || c == '_' || c == '.' || c == '~') {
      encoded += c;
    } else {
      encoded += fmt::format("%{:02X}", static_cast<unsigned char>(c));
    }
  }
  return encoded;
}

std::string write_form(const FormFields& fields) {
  std::string text;
  for (const auto& [name, value] : fields) {
    if (!text.empty()) text += '&';
    text += percent_encode(name);
    text += '=';
    text += percent_encode(value);
  }
  return text;
}

Result<std::string> decode_base64url(std::string_view text) {
  std::string bytes;
  bytes.reserve(text.size() * 3 / 4);
  std::uint32_t bits = 0;
  int count = 0;
  for (const char c : text) {
    const int value = base64url_value(c);
    if (value < 0) return err(ErrorCode::kInvalidArgument, "it is no base64url");
    bits = (bits << 6U) | static_cast<unsigned>(value);
    count += 6;
    if (count < 8) continue;
    count -= 8;
    bytes += static_cast<char>((bits >> count) & 0xffU);
  }
  // One digit alone is less than a byte, and what is left over has to be zeros: there is one way to
  // write everything.
  if (count >= 6 || (bits & ((1U << count) - 1U)) != 0) {
    return err(ErrorCode::kInvalidArgument, "it is no base64url");
  }
  return bytes;
}

}  // namespace divvy::oidc
