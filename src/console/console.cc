#include "console/console.h"

#include <algorithm>

#include "base/text.h"

namespace divvy::console {
namespace {

// Scripts, styles and connections of this server and of no other; no inline script or style, no
// frame around it. A job name that is markup stays text even if the page had a mistake.
constexpr std::string_view kPolicy =
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "font-src 'self'; connect-src 'self'; manifest-src 'self'; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'";
constexpr std::string_view kApiPolicy = "default-src 'none'; frame-ancestors 'none'; sandbox";
constexpr std::string_view kForEver = "public, max-age=31536000, immutable";

void secure(net::HttpResponse& answer) {
  answer.headers["content-security-policy"] = kPolicy;
  answer.headers["cross-origin-opener-policy"] = "same-origin";
  answer.headers["cross-origin-resource-policy"] = "same-origin";
  answer.headers["permissions-policy"] = "camera=(), geolocation=(), microphone=()";
  answer.headers["referrer-policy"] = "no-referrer";
  answer.headers["x-content-type-options"] = "nosniff";
  answer.headers["x-frame-options"] = "DENY";
}

net::HttpResponse text(int status, std::string_view sentence) {
  net::HttpResponse answer{status, "text/plain; charset=utf-8", std::string(sentence) + "\n"};
  secure(answer);
  return answer;
}

const Asset* find(std::span<const Asset> files, std::string_view path) {
  const auto exact = std::ranges::find(files, path, &Asset::path);
  if (exact != files.end()) return &*exact;
  const std::string_view last = path.substr(path.rfind('/') + 1);
  return last.find('.') == std::string_view::npos ? &files.front() : nullptr;
}

}  // namespace

bool is_for_api(std::string_view path) { return path == "/v1" || path.starts_with("/v1/"); }

void forbid_rendering(net::HttpResponse& answer) {
  answer.headers.try_emplace("content-security-policy", kApiPolicy);
  answer.headers.try_emplace("x-content-type-options", "nosniff");
}

net::HttpResponse serve(const net::HttpRequest& request, std::span<const Asset> files) {
  if (request.method != "GET") {
    net::HttpResponse refused = text(405, "Pages can be looked at (GET); the API is under /v1.");
    refused.headers["allow"] = "GET";
    return refused;
  }
  if (files.empty()) {
    return text(404,
                "This divvyd was built without its console. Install nodejs and npm (18 or newer), "
                "configure and build again. The API is here all the same, under /v1.");
  }
  const Asset* const asset = find(files, request.path);
  if (asset == nullptr) return text(404, "There is no such file in the console; / is its page.");
  if (to_lower(request.header("accept-encoding")).find("gzip") == std::string::npos) {
    return text(406, "The console is for browsers: its files are compressed (gzip).");
  }
  net::HttpResponse answer;
  answer.content_type = asset->content_type;
  answer.headers["etag"] = fmt::format("\"{}\"", asset->tag);
  answer.headers["cache-control"] =
      asset->path.starts_with("/assets/") ? kForEver : std::string_view("no-cache");
  answer.headers["vary"] = "accept-encoding";
  secure(answer);
  if (request.header("if-none-match") == answer.headers["etag"]) {
    answer.status = 304;
    return answer;
  }
  answer.headers["content-encoding"] = "gzip";
  answer.body = asset->bytes;
  return answer;
}

}  // namespace divvy::console
