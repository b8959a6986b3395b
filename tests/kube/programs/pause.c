// Pid 1 of a node of the test cluster, and of every pod's sandbox there (the image "pause"): sleeps,
// reaps the orphans that the namespace hands to it, and ends when it is told to, which ends the
// namespace. Static, because it starts before there is anything to load a library from.
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

static void end(int signal_number) {
  (void)signal_number;
  _exit(0);
}

static void reap(int signal_number) {
  (void)signal_number;
  while (waitpid(-1, 0, WNOHANG) > 0) {
  }
}

int main(void) {
  struct sigaction action = {.sa_flags = SA_RESTART};
  action.sa_handler = end;
  sigaction(SIGTERM, &action, 0);
  sigaction(SIGINT, &action, 0);
  action.sa_handler = reap;
  action.sa_flags = SA_RESTART | SA_NOCLDSTOP;
  sigaction(SIGCHLD, &action, 0);
  for (;;) pause();
}
