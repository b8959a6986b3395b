// OpenSSL as this room uses it: TLS 1.2 and up, forward secrecy only. Included by the .cc files of
// this room and by nobody else.
#pragma once

#include <boost/asio/ssl/context.hpp>
#include <memory>

#include "base/result.h"
#include "net/tls.h"

namespace divvy::net {

// Says which file is wrong and why.
[[nodiscard]] Result<std::shared_ptr<boost::asio::ssl::context>> server_context(
    const TlsIdentity& identity);
[[nodiscard]] Result<std::shared_ptr<boost::asio::ssl::context>> client_context(
    const TlsTrust& trust);

}  // namespace divvy::net
