// Where the Kubernetes API server is and who we are there: from a kubeconfig, or as a pod. Secrets
// are in here and nowhere in messages or logs.
#pragma once

#include <filesystem>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "base/result.h"
#include "net/http.h"

namespace divvy::kube {

// A bearer token, from a text or from a file that is read anew whenever it has changed: the tokens
// of pods are replaced every hour. Every function may be called from any thread.
class BearerToken {
 public:
  explicit BearerToken(std::string text) : token_(std::move(text)) {}
  [[nodiscard]] static Result<std::shared_ptr<BearerToken>> from_file(std::filesystem::path file);

  // The one to use now. A file that cannot be read for a moment leaves the last one.
  [[nodiscard]] std::string get();

 private:
  // Kubernetes replaces a link in the path, so any of these may be what changes.
  struct Stamp {
    std::int64_t seconds = 0;
    std::int64_t nanoseconds = 0;
    std::uint64_t inode = 0;
    friend bool operator==(const Stamp&, const Stamp&) = default;
  };
  [[nodiscard]] Status read();
  [[nodiscard]] std::optional<Stamp> stamp() const;

  std::filesystem::path file_;  // Empty: only the text
  std::mutex mutex_;            // Guards the two below
  std::string token_;
  std::optional<Stamp> read_at_;
};

struct Credentials {
  net::HttpTarget target;  // With the authority and, where there is one, our certificate
  std::string prefix;      // In front of every path, where the server is behind a gateway
  std::shared_ptr<BearerToken> token;  // Null: none
  std::string space;                   // Our namespace
};

// `context` empty: the current one. Files are relative to the folder of the kubeconfig.
[[nodiscard]] Result<Credentials> load_kubeconfig(const std::filesystem::path& file,
                                                  const std::string& context = {});

// As every pod has it: `folder` with token, ca.crt and namespace; host and port from the
// environment. kNotFound outside of a pod.
struct PodSurroundings {
  std::string host;  // KUBERNETES_SERVICE_HOST
  std::string port;  // KUBERNETES_SERVICE_PORT
  std::filesystem::path folder = "/var/run/secrets/kubernetes.io/serviceaccount";

  [[nodiscard]] static PodSurroundings of_this_process();
};
[[nodiscard]] Result<Credentials> load_pod_credentials(const PodSurroundings& surroundings);

// A kubeconfig that is named; else $KUBECONFIG; else the pod's; else ~/.kube/config.
[[nodiscard]] Result<Credentials> find_credentials(const std::filesystem::path& kubeconfig = {},
                                                   const std::string& context = {});

}  // namespace divvy::kube
