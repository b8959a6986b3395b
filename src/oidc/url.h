// The addresses that a provider is asked at, and what is written into them. Plain values; any text
// is safe to pass. Pure, callable from any thread.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/base64.h"
#include "base/result.h"
#include "net/tcp_address.h"

namespace divvy::oidc {

// "https://id.example/realms/lab". "http://" only for an address of this machine: everything else
// of OpenID Connect rests on TLS.
struct Url {
  static constexpr std::size_t kLongest = 2000;

  bool secure = true;
  net::TcpAddress address;
  std::string path;   // "/realms/lab"; at least "/"
  std::string query;  // What follows the '?'
  std::string host;   // As the header Host has it: without the port that goes without saying

  [[nodiscard]] static Result<Url> parse(std::string_view text);
  [[nodiscard]] bool is_loopback() const;
  // As the header Origin has it: "https://id.example:8443".
  [[nodiscard]] std::string origin() const { return (secure ? "https://" : "http://") + host; }
};

using FormFields = std::vector<std::pair<std::string, std::string>>;
// "a=b%20c&d=e", for the body of a form or behind a '?'.
[[nodiscard]] std::string write_form(const FormFields& fields);
[[nodiscard]] std::string percent_encode(std::string_view text);

// kInvalidArgument for anything that encode_base64url() does not write.
[[nodiscard]] Result<std::string> decode_base64url(std::string_view text);

}  // namespace divvy::oidc
