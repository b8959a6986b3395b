// Who a server is and whom a client believes, for TLS. Plain values; the library behind them
// (OpenSSL) is in tls_context.h, which only this room includes.
#pragma once

#include <filesystem>
#include <string>

namespace divvy::net {

// PEM files. The key is nobody's but the daemon's: readable for others, it is refused.
struct TlsIdentity {
  std::filesystem::path certificate;  // With the chain behind it
  std::filesystem::path key;
};

struct TlsTrust {
  std::filesystem::path authorities;  // A PEM file; empty: those of this machine
  std::string name;                   // That the certificate is for; empty: the host
};

}  // namespace divvy::net
