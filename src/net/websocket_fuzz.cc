// Any bytes after the handshake of a WebSocket: the tunnel ends, and passes on no more than came.
#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <boost/asio/generic/stream_protocol.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/beast/core.hpp>
#include <boost/beast/http.hpp>
#include <cstddef>
#include <cstdint>

#include "base/check.h"
#include "net/websocket.h"

namespace beast = boost::beast;
using Protocol = boost::asio::generic::stream_protocol;
using Stream = beast::basic_stream<Protocol>;

static beast::http::request<beast::http::string_body> handshake() {
  beast::http::request<beast::http::string_body> request(beast::http::verb::get, "/", 11);
  request.set(beast::http::field::host, "x");
  request.set(beast::http::field::connection, "Upgrade");
  request.set(beast::http::field::upgrade, "websocket");
  request.set(beast::http::field::sec_websocket_version, "13");
  request.set(beast::http::field::sec_websocket_key, "dGhlIHNhbXBsZSBub25jZQ==");
  return request;
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  // So that all of it has room in a socket: nobody reads at the same time.
  constexpr std::size_t kMost = 65536;
  size = size < kMost ? size : kMost;
  std::array<int, 2> remote{};
  std::array<int, 2> inside{};
  DIVVY_CHECK(::socketpair(AF_UNIX, SOCK_STREAM, 0, remote.data()) == 0);
  DIVVY_CHECK(::socketpair(AF_UNIX, SOCK_STREAM, 0, inside.data()) == 0);
  DIVVY_CHECK(::send(remote[1], data, size, 0) == static_cast<ssize_t>(size));
  ::shutdown(remote[1], SHUT_WR);
  {
    boost::asio::io_context context(1);
    Stream stream(Protocol::socket(context, Protocol(AF_UNIX, 0), remote[0]));
    divvy::net::WebSocket<Stream> web(stream);
    divvy::net::set_up(web);
    bool accepted = false;
    const auto request = handshake();
    web.async_accept(request, [&](boost::system::error_code code) { accepted = !code; });
    context.run();
    DIVVY_CHECK(accepted);
    Protocol::socket local(context, Protocol(AF_UNIX, 0), inside[0]);
    divvy::net::WebSocketTunnel<Stream>(context, web, local).run();
  }
  std::array<char, 4096> piece{};
  std::size_t passed_on = 0;
  for (ssize_t got = 0; (got = ::read(inside[1], piece.data(), piece.size())) > 0;) {
    passed_on += static_cast<std::size_t>(got);
  }
  DIVVY_CHECK(passed_on <= size);
  ::close(remote[1]);
  ::close(inside[1]);
  return 0;
}
