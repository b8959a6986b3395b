// A program for services of tests: `http_replica WORD` listens at $PORT of the loopback and answers
// every request with its word and its number. `http_replica WORD sick` answers with 503,
// `http_replica WORD gone` ends at once.
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdlib>
#include <string>
#include <thread>

namespace {

std::string g_answer;

// One request for each connection, as HAProxy asks for it.
void serve(int caller) {
  std::string head;
  char piece[4096];
  while (head.find("\r\n\r\n") == std::string::npos) {
    const ssize_t got = ::read(caller, piece, sizeof piece);
    if (got <= 0) break;
    head.append(piece, static_cast<std::size_t>(got));
  }
  if (!head.empty()) (void)!::send(caller, g_answer.data(), g_answer.size(), MSG_NOSIGNAL);
  ::shutdown(caller, SHUT_WR);
  // What is unread at close() would break the answer.
  while (::read(caller, piece, sizeof piece) > 0) {
  }
  ::close(caller);
}

}  // namespace

int main(int argc, char** argv) {
  const char* port = std::getenv("PORT");
  if (argc < 2 || port == nullptr) return 2;
  const std::string how = argc > 2 ? argv[2] : "";
  if (how == "gone") return 3;
  const std::string body = std::string(argv[1]) + " " + std::to_string(::getpid());
  g_answer = std::string("HTTP/1.1 ") + (how == "sick" ? "503 Sick" : "200 OK") +
             "\r\nConnection: close\r\nContent-Length: " + std::to_string(body.size()) +
             "\r\n\r\n" + body;
  const int listener = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const int on = 1;
  ::setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(static_cast<std::uint16_t>(std::atoi(port)));
  if (::bind(listener, reinterpret_cast<sockaddr*>(&address), sizeof address) != 0 ||
      ::listen(listener, 128) != 0) {
    return 1;
  }
  for (;;) {
    const int caller = ::accept4(listener, nullptr, nullptr, SOCK_CLOEXEC);
    if (caller >= 0) std::thread(serve, caller).detach();
  }
}
