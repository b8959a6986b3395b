// What both ends of a connection do after an HTTP upgrade: bytes go both ways between it and a
// local socket, as they come. Included by the .cc files of this room and by nobody else. On the
// thread that runs the context.
#pragma once

#include <array>
#include <atomic>
#include <boost/asio/generic/stream_protocol.hpp>
#include <boost/asio/ssl/error.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/core.hpp>
#include <chrono>
#include <optional>

namespace divvy::net {

// `Stream` is a beast::basic_stream, or TLS on one. The end of one direction is passed on, also
// inside TLS, as the end of the TCP connection in that direction: what goes through says itself
// whether it is complete. No more is kept than a buffer for each direction.
template <typename Stream>
class Tunnel {
 public:
  using ErrorNumber = boost::system::error_code;
  using Local = boost::asio::generic::stream_protocol::socket;
  struct Rules {
    // Set: the end of the connection is the end of everything.
    const std::atomic<bool>* stopping = nullptr;
    // How long the other side may take to hang up after we have; nothing: as long as it likes.
    std::optional<std::chrono::milliseconds> farewell = std::nullopt;
  };

  // `already` was read from the stream before. All outlive it.
  Tunnel(Stream& stream, Local& local, boost::beast::flat_buffer& already, Rules rules)
      : stream_(stream),
        local_(local),
        already_(already),
        rules_(rules),
        timer_(local.get_executor()) {}

  // It is over when the context has nothing left to do.
  void start() {
    boost::beast::get_lowest_layer(stream_).expires_never();
    if (already_.size() > 0) {
      write_local(already_.data());
    } else {
      read_remote();
    }
    read_local();
  }

 private:
  void read_remote() {
    stream_.async_read_some(boost::asio::buffer(in_), [this](ErrorNumber code, std::size_t got) {
      if (!code) return write_local(boost::asio::buffer(in_, got));
      const bool ended =
          code == boost::asio::error::eof || code == boost::asio::ssl::error::stream_truncated;
      if (!ended || (rules_.stopping != nullptr && *rules_.stopping)) return stop();
      ErrorNumber ignored;
      ignored = local_.shutdown(Local::shutdown_send, ignored);
      in_open_ = false;
      stop_if_over();
    });
  }

  template <typename Bytes>
  void write_local(const Bytes& bytes) {
    boost::asio::async_write(local_, bytes, [this](ErrorNumber code, std::size_t) {
      if (!code) return read_remote();
      // It reads no more, but may have said something before.
      in_open_ = false;
      stop_if_over();
    });
  }

  void read_local() {
    local_.async_read_some(boost::asio::buffer(out_), [this](ErrorNumber code, std::size_t got) {
      if (code) return end_out();
      boost::asio::async_write(stream_, boost::asio::buffer(out_, got),
                               [this](ErrorNumber failed, std::size_t) {
                                 if (failed) return stop();
                                 read_local();
                               });
    });
  }

  void end_out() {
    if (stopped_) return;
    out_open_ = false;
    ErrorNumber ignored;
    ignored =
        boost::beast::get_lowest_layer(stream_).socket().shutdown(Local::shutdown_send, ignored);
    if (rules_.farewell && in_open_) {
      timer_.expires_after(*rules_.farewell);
      timer_.async_wait([this](ErrorNumber code) {
        if (!code) stop();
      });
    }
    stop_if_over();
  }

  void stop_if_over() {
    if (!in_open_ && !out_open_) stop();
  }

  void stop() {
    if (stopped_) return;
    stopped_ = true;
    ErrorNumber ignored;
    ignored = local_.close(ignored);
    timer_.cancel();
    boost::beast::get_lowest_layer(stream_).close();
  }

  Stream& stream_;
  Local& local_;
  boost::beast::flat_buffer& already_;
  const Rules rules_;
  boost::asio::steady_timer timer_;
  std::array<char, 65536> in_;
  std::array<char, 65536> out_;
  bool in_open_ = true;
  bool out_open_ = true;
  bool stopped_ = false;
};

}  // namespace divvy::net
