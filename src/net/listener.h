// A socket that clients connect to: on a path of this machine or on the network. Made and used by
// HttpServer.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <filesystem>

#include "base/result.h"
#include "net/tcp_address.h"

namespace divvy::net {

class Listener {
 public:
  // Replaces whatever is at the path. `mode` says who may connect.
  [[nodiscard]] static Result<Listener> on_path(const std::filesystem::path& path, mode_t mode);
  // kAlreadyExists when somebody else listens there.
  [[nodiscard]] static Result<Listener> on_network(const TcpAddress& address);
  ~Listener();
  Listener(Listener&& other) noexcept;
  Listener& operator=(Listener&&) = delete;

  // The next connection, a descriptor of the caller's own; an error also after stop().
  [[nodiscard]] Result<int> accept() const;
  // From another thread: ends a blocked accept().
  void stop() const;

  [[nodiscard]] bool network() const { return port_ != 0; }
  // The port on the network, chosen where 0 was asked for; 0 on a path.
  [[nodiscard]] std::uint16_t port() const { return port_; }

 private:
  explicit Listener(int fd) : fd_(fd) {}

  int fd_;
  std::uint16_t port_ = 0;
};

}  // namespace divvy::net
