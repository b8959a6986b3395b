#include <netinet/in.h>
#include <sys/socket.h>

#include <boost/asio/generic/stream_protocol.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/local/stream_protocol.hpp>
#include <boost/beast/core.hpp>
#include <boost/beast/http.hpp>
#include <utility>
#include <vector>

#include "net/http.h"

namespace divvy::net {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = boost::beast::http;
using Protocol = asio::generic::stream_protocol;

constexpr std::size_t kMaxAnswer = 64U << 20U;

Error to_error(const boost::system::error_code& code, const std::string& where) {
  if (code == beast::error::timeout) {
    return {ErrorCode::kTimeout, fmt::format("divvyd at {} did not answer in time", where)};
  }
  if (code == boost::system::errc::permission_denied) {
    return {ErrorCode::kPermissionDenied,
            fmt::format("you may not speak with the divvyd at {}", where)};
  }
  return {ErrorCode::kUnavailable,
          fmt::format("no divvyd answers at {}: {}", where, code.message())};
}

Result<HttpResponse> exchange(const std::vector<Protocol::endpoint>& endpoints,
                              const std::string& where, const HttpRequest& request,
                              std::optional<std::chrono::milliseconds> timeout) {
  try {
    asio::io_context context(1);
    beast::basic_stream<Protocol> stream(context);
    boost::system::error_code code;
    for (const Protocol::endpoint& endpoint : endpoints) {
      code = stream.socket().close(code);
      code = stream.socket().connect(endpoint, code);
      if (!code) break;
    }
    if (code) return err(to_error(code, where));

    const std::string target =
        request.query.empty() ? request.path : request.path + "?" + request.query;
    http::request<http::string_body> message(http::string_to_verb(request.method), target, 11);
    message.set(http::field::host, "divvyd");
    message.set(http::field::content_type, "application/json");
    message.body() = request.body;
    message.keep_alive(false);
    message.prepare_payload();

    if (timeout) {
      stream.expires_after(*timeout);
    } else {
      stream.expires_never();
    }
    beast::flat_buffer buffer;
    http::response_parser<http::string_body> parser;
    parser.body_limit(kMaxAnswer);
    http::async_write(stream, message, [&](boost::system::error_code result, std::size_t) {
      code = result;
      // A server that refuses may answer before it has read everything.
      if (code && code != boost::system::errc::broken_pipe) return;
      http::async_read(stream, buffer, parser,
                       [&](boost::system::error_code read, std::size_t) { code = read; });
    });
    context.run();
    if (code) return err(to_error(code, where));
    HttpResponse answer;
    answer.status = static_cast<int>(parser.get().result_int());
    answer.content_type = std::string(parser.get()[http::field::content_type]);
    answer.body = std::move(parser.get().body());
    return answer;
  } catch (const std::exception& error) {
    return err(ErrorCode::kInternal, "the request to {} failed: {}", where, error.what());
  }
}

}  // namespace

Result<HttpResponse> http_request(const std::filesystem::path& socket, const HttpRequest& request,
                                  std::optional<std::chrono::milliseconds> timeout) {
  const std::string path = socket.string();
  if (path.size() >= sizeof(sockaddr_un::sun_path)) {
    return err(ErrorCode::kInvalidArgument, "the socket path {} is too long", path);
  }
  return exchange({asio::local::stream_protocol::endpoint(path)}, path, request, timeout);
}

Result<HttpResponse> http_request(const TcpAddress& server, const HttpRequest& request,
                                  std::optional<std::chrono::milliseconds> timeout) {
  TcpAddress address = server;
  if (address.host.empty()) address.host = "localhost";
  DIVVY_TRY(found, resolve(address));
  std::vector<Protocol::endpoint> endpoints;
  endpoints.reserve(found.size());
  for (const SocketAddress& one : found) {
    endpoints.emplace_back(one.get(), one.size, IPPROTO_TCP);
  }
  return exchange(endpoints, to_string(address), request, timeout);
}

}  // namespace divvy::net
