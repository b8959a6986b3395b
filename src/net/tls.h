// Who a server is and whom a client believes, for TLS. Plain values; the library behind them
// (OpenSSL) is in tls_context.h, which only this room includes.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

namespace divvy::net {

// PEM files. The key is nobody's but the daemon's: readable for others, it is refused.
struct TlsIdentity {
  std::filesystem::path certificate;  // With the chain behind it
  std::filesystem::path key;
  // Of a server: a PEM file with the authorities of those who may come in; empty: anybody.
  std::filesystem::path clients{};
};

// PEM texts, in memory.
struct TlsClientIdentity {
  std::string certificate;  // With the chain behind it
  std::string key;
};

struct TlsTrust {
  std::filesystem::path authorities;          // A PEM file; empty: those of this machine
  std::string name;                           // That the certificate is for; empty: the host
  std::string authorities_pem{};              // Instead of the file: its text
  std::optional<TlsClientIdentity> client{};  // Whom we say we are, where the server asks
};

}  // namespace divvy::net
