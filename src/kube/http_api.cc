#include "kube/http_api.h"

#include <algorithm>
#include <boost/json.hpp>
#include <charconv>
#include <utility>

#include "base/text.h"
#include "kube/api_error.h"
#include "kube/resource_path.h"
#include "kube/watch_lines.h"
#include "net/http_connections.h"

namespace divvy::kube {
namespace {

namespace json = boost::json;

// What a server that says 429 asks for; a second where it does not say.
std::chrono::seconds retry_after(const net::HttpResponse& answer) {
  const auto header = answer.headers.find("retry-after");
  if (header == answer.headers.end()) return std::chrono::seconds(1);
  unsigned seconds = 0;
  const std::string& text = header->second;
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), seconds);
  const bool whole = code == std::errc() && end == text.data() + text.size();
  return std::chrono::seconds(whole ? std::max(seconds, 1U) : 1U);
}

// Nobody answered in time is nobody answered, for who decides what to do next.
Error unanswered(Error error, std::string_view what) {
  if (error.code == ErrorCode::kTimeout || error.code == ErrorCode::kInternal) {
    error.code = ErrorCode::kUnavailable;
  }
  return with_context(std::move(error), what);
}

class Tunnelled final : public PodConnection {
 public:
  Tunnelled(std::unique_ptr<net::HttpTunnel> tunnel, std::string protocol)
      : tunnel_(std::move(tunnel)), protocol_(std::move(protocol)) {}
  [[nodiscard]] int fd() const override { return tunnel_->fd(); }
  [[nodiscard]] const std::string& protocol() const override { return protocol_; }

 private:
  const std::unique_ptr<net::HttpTunnel> tunnel_;
  const std::string protocol_;
};

bool is_success(int status) { return status >= 200 && status < 300; }

}  // namespace

class HttpApi::Impl {
 public:
  Impl(Credentials credentials, HttpApiOptions options, Clock& clock,
       std::unique_ptr<net::HttpConnections> connections)
      : credentials_(std::move(credentials)),
        options_(std::move(options)),
        clock_(clock),
        connections_(std::move(connections)),
        host_(to_string(*credentials_.target.network)) {}

  Result<json::object> ask(const std::string& method, const std::string& path,
                           const std::string& body, const char* type) {
    const std::string what = fmt::format("{} {}", method, path.substr(0, path.find('?')));
    const TimePoint start = clock_.now();
    for (bool tried_new_token = false;;) {
      const net::HttpRequest request = make(method, path, body, type);
      auto answer = connections_->request(request, options_.timeout);
      if (!answer) return err(unanswered(answer.error(), what));
      if (is_success(answer->status)) return with_context(parse_document(answer->body), what);
      if (answer->status == 401 && !tried_new_token && has_new_token(request)) {
        tried_new_token = true;
        continue;
      }
      // A request that was refused with 429 was not done, whatever it is.
      const TimePoint next = clock_.now() + retry_after(*answer);
      if (answer->status != 429 || next - start > options_.most_retry_wait) {
        return err(error_of_answer(answer->status, answer->body, what));
      }
      clock_.wait_until(next, [] { return false; });
    }
  }

  Status watch(const std::string& path, const std::function<bool(WatchEvent)>& take,
               const std::stop_token& stop) {
    const std::string what = fmt::format("watch {}", path.substr(0, path.find('?')));
    WatchLines lines;
    Status read;
    const auto answer = connections_->follow(
        make("GET", with_parameter(path, "watch", "1"), {}, nullptr), options_.watch_silence,
        [&](std::string_view piece) {
          read = lines.read(piece, take);
          return read.has_value() && lines.wanted();
        },
        stop);
    if (!read) return err(with_context(read.error(), what));
    if (!answer) return err(unanswered(answer.error(), what));
    if (!is_success(answer->status)) {
      return err(error_of_answer(answer->status, answer->body, what));
    }
    return {};
  }

  Result<std::unique_ptr<PodConnection>> connect(const std::string& path,
                                                 const std::string& protocols) {
    const std::string what = fmt::format("connect {}", path.substr(0, path.find('?')));
    for (bool tried_new_token = false;;) {
      net::HttpRequest request = make("GET", path, {}, nullptr);
      request.headers["upgrade"] = "websocket";
      // The subresources of pods have no representation, and refuse (406) who wants a certain one.
      request.headers["accept"] = "*/*";
      request.headers["sec-websocket-protocol"] = protocols;
      auto made = net::http_upgrade(credentials_.target, request, options_.timeout,
                                    net::TunnelOf::kMessages);
      if (!made) return err(unanswered(made.error(), what));
      if (made->tunnel != nullptr) {
        const auto chosen = made->answer.headers.find("sec-websocket-protocol");
        return std::make_unique<Tunnelled>(
            std::move(made->tunnel),
            chosen == made->answer.headers.end() ? std::string() : chosen->second);
      }
      const bool again = made->answer.status == 401 && has_new_token(request);
      if (!again || std::exchange(tried_new_token, true)) {
        return err(error_of_answer(made->answer.status, made->answer.body, what));
      }
    }
  }

  Status read_text(const std::string& path, const std::function<bool(std::string_view)>& take,
                   const std::stop_token& stop) {
    const std::string what = fmt::format("GET {}", path.substr(0, path.find('?')));
    net::HttpRequest request = make("GET", path, {}, nullptr);
    // What is refused comes as a document nevertheless.
    request.headers["accept"] = "*/*";
    // What is followed may say nothing for long; what is there already comes at once.
    const auto resource = ResourcePath::parse(path);
    const bool follows = resource && resource->parameter("follow") == "true";
    const auto silence = follows ? std::nullopt : std::optional(options_.timeout);
    const auto answer = connections_->follow(request, silence, take, stop);
    if (!answer) return err(unanswered(answer.error(), what));
    if (!is_success(answer->status)) {
      return err(error_of_answer(answer->status, answer->body, what));
    }
    return {};
  }

 private:
  net::HttpRequest make(const std::string& method, const std::string& path, const std::string& body,
                        const char* type) const {
    net::HttpRequest request;
    request.method = method;
    const std::size_t question = path.find('?');
    request.path = credentials_.prefix + path.substr(0, question);
    if (question != std::string::npos) request.query = path.substr(question + 1);
    request.body = body;
    request.headers = {
        {"host", host_}, {"accept", "application/json"}, {"user-agent", options_.user_agent}};
    if (type != nullptr) request.headers["content-type"] = type;
    if (credentials_.token) {
      request.headers["authorization"] = "Bearer " + credentials_.token->get();
    }
    return request;
  }

  // Whether the one that was refused has been replaced meanwhile.
  bool has_new_token(const net::HttpRequest& request) const {
    return credentials_.token &&
           request.header("authorization") != "Bearer " + credentials_.token->get();
  }

  const Credentials credentials_;
  const HttpApiOptions options_;
  Clock& clock_;
  const std::unique_ptr<net::HttpConnections> connections_;
  const std::string host_;
};

HttpApi::HttpApi(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
HttpApi::~HttpApi() = default;

Result<std::unique_ptr<HttpApi>> HttpApi::create(Credentials credentials, HttpApiOptions options,
                                                 Clock& clock) {
  if (!credentials.target.network) {
    return err(ErrorCode::kInvalidArgument, "an API server is on the network");
  }
  DIVVY_TRY(connections, net::HttpConnections::create({.target = credentials.target}));
  return std::unique_ptr<HttpApi>(new HttpApi(std::make_unique<Impl>(
      std::move(credentials), std::move(options), clock, std::move(connections))));
}

Result<json::object> HttpApi::get(const std::string& path) {
  return impl_->ask("GET", path, {}, nullptr);
}

Result<json::object> HttpApi::create(const std::string& path, const json::object& object) {
  return impl_->ask("POST", path, json::serialize(object), "application/json");
}

Result<json::object> HttpApi::replace(const std::string& path, const json::object& object) {
  return impl_->ask("PUT", path, json::serialize(object), "application/json");
}

Result<json::object> HttpApi::patch(const std::string& path, PatchType type,
                                    const json::value& patch) {
  const char* media =
      type == PatchType::kJson ? "application/json-patch+json" : "application/merge-patch+json";
  return impl_->ask("PATCH", path, json::serialize(patch), media);
}

Status HttpApi::remove(const std::string& path, const json::object& options) {
  const std::string body = options.empty() ? std::string() : json::serialize(options);
  DIVVY_RETURN_IF_ERROR(impl_->ask("DELETE", path, body, "application/json"));
  return {};
}

Status HttpApi::watch(const std::string& path, const std::function<bool(WatchEvent)>& take,
                      const std::stop_token& stop) {
  return impl_->watch(path, take, stop);
}

Result<std::unique_ptr<PodConnection>> HttpApi::connect(const std::string& path,
                                                        const std::string& protocols) {
  return impl_->connect(path, protocols);
}

Status HttpApi::read_text(const std::string& path,
                          const std::function<bool(std::string_view)>& take,
                          const std::stop_token& stop) {
  return impl_->read_text(path, take, stop);
}

}  // namespace divvy::kube
