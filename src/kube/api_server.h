// The Kubernetes API as Divvy uses it: objects are JSON documents, addressed by their paths.
// Implementations: http_api.h for a real API server, fake_api.h for tests. All methods may be
// called from any thread.
//
// Errors, by what the server said: kNotFound 404, kAlreadyExists 409 with that reason,
// kFailedPrecondition any other 409 (somebody changed it meanwhile: read it again), kOutOfRange 410
// (a resource version or a page that is too old: list again), kInvalidArgument 400 and 422,
// kPermissionDenied 401 and 403, kResourceExhausted 429, kUnavailable where nobody answered or 5xx
// (a write may have been done nevertheless), kCancelled after a stop. A `test` of a JSON patch that
// fails is a 422 for the API server.
#pragma once

#include <boost/json/fwd.hpp>
#include <boost/json/object.hpp>
#include <boost/json/value.hpp>
#include <functional>
#include <memory>
#include <stop_token>
#include <string>
#include <string_view>

#include "base/result.h"

namespace divvy::kube {

enum class PatchType {
  kJson,   // RFC 6902; `test` operations are its preconditions
  kMerge,  // RFC 7386
};

// What a watch says. `bookmark`: only the resource version of `object` counts.
struct WatchEvent {
  enum class Kind { kAdded, kModified, kDeleted, kBookmark };
  Kind kind = Kind::kAdded;
  boost::json::object object;
};

// A connection into a pod: its socket takes and gives one message at a time (pod_channels.h), and
// is at its end when the other side has hung up. The end of this object is the end of the
// connection.
class PodConnection {
 public:
  virtual ~PodConnection() = default;
  [[nodiscard]] virtual int fd() const = 0;
  [[nodiscard]] virtual const std::string& protocol() const = 0;  // that the server has chosen
};

class ApiServer {
 public:
  virtual ~ApiServer() = default;

  // `path` is all that follows the host: "/api/v1/namespaces/a/pods/b?fieldSelector=...".
  [[nodiscard]] virtual Result<boost::json::object> get(const std::string& path) = 0;
  // POST to a collection or a subresource.
  [[nodiscard]] virtual Result<boost::json::object> create(const std::string& path,
                                                           const boost::json::object& object) = 0;
  // PUT; the resource version in `object` is its precondition.
  [[nodiscard]] virtual Result<boost::json::object> replace(const std::string& path,
                                                            const boost::json::object& object) = 0;
  [[nodiscard]] virtual Result<boost::json::object> patch(const std::string& path, PatchType type,
                                                          const boost::json::value& patch) = 0;
  // DELETE; `options` is a DeleteOptions document or empty.
  [[nodiscard]] virtual Status remove(const std::string& path,
                                      const boost::json::object& options) = 0;
  // Follows a watch until it ends, `take` returns false, or the server says 410 (kOutOfRange). An
  // end that the server chose is a success: go on from the last resource version. `path` is that of
  // a collection with its resourceVersion in the query; watch=1 is added.
  [[nodiscard]] Status watch(const std::string& path, const std::function<bool(WatchEvent)>& take) {
    return watch(path, take, {});
  }
  // A request to stop ends it soon, also while nothing happens: kCancelled.
  [[nodiscard]] virtual Status watch(const std::string& path,
                                     const std::function<bool(WatchEvent)>& take,
                                     const std::stop_token& stop) = 0;
  // An answer that is no document, piece by piece until it ends or `take` returns false: the output
  // of a container ("/api/v1/namespaces/a/pods/b/log?follow=true"), which may be silent for as long
  // as it likes. A request to stop ends it soon: kCancelled.
  [[nodiscard]] virtual Status read_text(const std::string& path,
                                         const std::function<bool(std::string_view)>& take,
                                         const std::stop_token& stop);
  // A WebSocket on a subresource of a pod ("/api/v1/namespaces/a/pods/b/exec?command=ls"), in one
  // of the protocols, which are named with commas between them.
  [[nodiscard]] virtual Result<std::unique_ptr<PodConnection>> connect(
      const std::string& path, const std::string& protocols);
};

inline Result<std::unique_ptr<PodConnection>> ApiServer::connect(const std::string& path,
                                                                 const std::string& /*protocols*/) {
  return err(ErrorCode::kUnsupported, "{}: nobody goes into pods here",
             path.substr(0, path.find('?')));
}

inline Status ApiServer::read_text(const std::string& path,
                                   const std::function<bool(std::string_view)>& /*take*/,
                                   const std::stop_token& /*stop*/) {
  return err(ErrorCode::kUnsupported, "GET {}: this is read as documents only", path);
}

}  // namespace divvy::kube
