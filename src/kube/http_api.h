// The API server of a real cluster, over HTTPS. Every function may be called from any thread; they
// block until the answer is there or the time for it is over.
#pragma once

#include <chrono>
#include <memory>
#include <string>

#include "base/clock.h"
#include "kube/api_server.h"
#include "kube/credentials.h"

namespace divvy::kube {

struct HttpApiOptions {
  std::chrono::milliseconds timeout = std::chrono::seconds(30);  // For one answer
  // Nothing came on a watch for so long: it is dead. Servers send bookmarks about every minute.
  std::chrono::milliseconds watch_silence = std::chrono::minutes(3);
  // How long a request may wait in all because the server says that it has too many (429).
  std::chrono::milliseconds most_retry_wait = std::chrono::seconds(20);
  std::string user_agent = "divvy";
};

class HttpApi final : public ApiServer {
 public:
  // Reads certificates; speaks to nobody yet. `clock` outlives it.
  [[nodiscard]] static Result<std::unique_ptr<HttpApi>> create(Credentials credentials,
                                                               HttpApiOptions options,
                                                               Clock& clock);
  ~HttpApi() override;

  using ApiServer::watch;
  [[nodiscard]] Result<boost::json::object> get(const std::string& path) override;
  [[nodiscard]] Result<boost::json::object> create(const std::string& path,
                                                   const boost::json::object& object) override;
  [[nodiscard]] Result<boost::json::object> replace(const std::string& path,
                                                    const boost::json::object& object) override;
  [[nodiscard]] Result<boost::json::object> patch(const std::string& path, PatchType type,
                                                  const boost::json::value& patch) override;
  [[nodiscard]] Status remove(const std::string& path, const boost::json::object& options) override;
  [[nodiscard]] Status watch(const std::string& path, const std::function<bool(WatchEvent)>& take,
                             const std::stop_token& stop) override;
  [[nodiscard]] Status read_text(const std::string& path,
                                 const std::function<bool(std::string_view)>& take,
                                 const std::stop_token& stop) override;
  [[nodiscard]] Result<std::unique_ptr<PodConnection>> connect(
      const std::string& path, const std::string& protocols) override;

 private:
  class Impl;
  explicit HttpApi(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace divvy::kube
