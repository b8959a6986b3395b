// A program for jobs of tests: `tcp_echo FILE` listens on a free port of the loopback, writes its
// number into FILE, sends back what comes, and appends a line to FILE.ended for each connection
// that has ended.
#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>
#include <string>
#include <thread>

namespace {

void serve(int caller, const std::string& ended) {
  static thread_local char piece[262144];
  bool fine = true;
  for (ssize_t got = 0; fine && (got = ::read(caller, piece, sizeof piece)) > 0;) {
    for (ssize_t sent = 0; fine && sent < got;) {
      const ssize_t now =
          ::send(caller, piece + sent, static_cast<std::size_t>(got - sent), MSG_NOSIGNAL);
      fine = now > 0;
      sent += now;
    }
  }
  ::close(caller);
  const int file = ::open(ended.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
  (void)!::write(file, "ended\n", 6);
  ::close(file);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  const int listener = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  if (::bind(listener, reinterpret_cast<sockaddr*>(&address), size) != 0 ||
      ::listen(listener, 64) != 0 ||
      ::getsockname(listener, reinterpret_cast<sockaddr*>(&address), &size) != 0) {
    return 1;
  }
  const std::string file = argv[1];
  // Nobody sees half of it.
  std::ofstream(file + ".new") << ntohs(address.sin_port) << "\n";
  if (std::rename((file + ".new").c_str(), file.c_str()) != 0) return 1;
  for (;;) {
    const int caller = ::accept4(listener, nullptr, nullptr, SOCK_CLOEXEC);
    if (caller >= 0) std::thread(serve, caller, file + ".ended").detach();
  }
}
