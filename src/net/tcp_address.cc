#include "net/tcp_address.h"

#include <netdb.h>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <memory>

#include "base/text.h"

namespace divvy::net {
namespace {

constexpr std::string_view kExample =
    "write ADDRESS:PORT, such as :9400, 127.0.0.1:9400 or [::1]:9400";

}  // namespace

Result<TcpAddress> TcpAddress::parse(std::string_view text) {
  const auto refuse = [text](std::string_view why) {
    return err(ErrorCode::kInvalidArgument, "\"{}\" {}; {}",
               escape_for_terminal(text.substr(0, 100)), why, kExample);
  };
  const std::size_t colon = text.rfind(':');
  if (colon == std::string_view::npos) return refuse("has no port");
  const std::string_view digits = text.substr(colon + 1);
  TcpAddress address;
  const auto [end, code] =
      std::from_chars(digits.data(), digits.data() + digits.size(), address.port);
  if (digits.empty() || code != std::errc() || end != digits.data() + digits.size()) {
    return refuse("has no port between 0 and 65535 at its end");
  }
  std::string_view host = text.substr(0, colon);
  const bool bracketed = host.size() >= 2 && host.front() == '[' && host.back() == ']';
  if (bracketed) {
    host = host.substr(1, host.size() - 2);
    if (host.empty()) return refuse("has empty brackets");
  } else if (host.find(':') != std::string_view::npos) {
    return refuse("needs brackets around an IPv6 address");
  }
  const bool odd = std::ranges::any_of(
      host, [](char c) { return c <= ' ' || c == 0x7f || c == '[' || c == ']' || c == '/'; });
  if (odd) return refuse("has an odd character in its address");
  address.host = std::string(host);
  return address;
}

std::string to_string(const TcpAddress& address) {
  const bool six = address.host.find(':') != std::string::npos;
  return six ? fmt::format("[{}]:{}", address.host, address.port)
             : fmt::format("{}:{}", address.host, address.port);
}

Result<std::vector<SocketAddress>> resolve(const TcpAddress& address) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE | AI_NUMERICSERV;
  addrinfo* found = nullptr;
  const std::string port = std::to_string(address.port);
  const int failed = ::getaddrinfo(address.host.empty() ? nullptr : address.host.c_str(),
                                   port.c_str(), &hints, &found);
  if (failed != 0) {
    return err(ErrorCode::kNotFound, "the address {} is not known: {}", to_string(address),
               ::gai_strerror(failed));
  }
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> list(found, &::freeaddrinfo);
  std::vector<SocketAddress> result;
  for (const addrinfo* one = list.get(); one != nullptr; one = one->ai_next) {
    if (one->ai_addrlen > sizeof(sockaddr_storage)) continue;
    SocketAddress& entry = result.emplace_back();
    std::memcpy(&entry.storage, one->ai_addr, one->ai_addrlen);
    entry.size = one->ai_addrlen;
  }
  if (result.empty()) {
    return err(ErrorCode::kNotFound, "the address {} is not known", to_string(address));
  }
  // An IPv6 socket takes IPv4 too where no address was named, so it goes first.
  const auto six = std::ranges::find_if(
      result, [](const SocketAddress& one) { return one.storage.ss_family == AF_INET6; });
  if (address.host.empty() && six != result.end()) std::iter_swap(result.begin(), six);
  return result;
}

}  // namespace divvy::net
