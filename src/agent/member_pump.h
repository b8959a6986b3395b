// Joins a stream of frames (sys/frames.h) with the descriptors of something that runs in a member:
// a command, a copy, the member's own input and output. On a thread of the stream, which is
// ended by shutting its socket down.
#pragma once

#include <string>
#include <vector>

#include "base/unique_fd.h"
#include "run/shepherd_client.h"
#include "sys/frames.h"

namespace divvy::agent {

class MemberPump {
 public:
  struct Output {
    UniqueFd fd;
    bool is_error = false;
  };
  enum class Input {
    kClosed,    // its end is the end of the descriptor
    kAttached,  // and the shepherd is told
    kUnclosed,  // a terminal, whose end is typed
  };
  struct Parts {
    int peer = -1;                          // stays the caller's
    run::ShepherdClient* client = nullptr;  // whose end is the end
    UniqueFd input = {};                    // does not block; none: it takes none
    Input input_end = Input::kClosed;
    std::vector<Output> outputs = {};
    // What is written after the end is told too, until nobody can write any more; otherwise what is
    // there at the end. Commands may leave others behind that never close their output.
    bool all_output = false;
  };
  explicit MemberPump(Parts parts) : parts_(std::move(parts)) {}

  // Returns when it is over or the other side is gone.
  void run();

 private:
  [[nodiscard]] bool has_outputs() const;
  // False: the other side is gone, or it is over.
  bool step();
  bool receive();
  bool handle(const sys::Frame& frame);
  bool flush();
  void write_input();
  void end_input();
  void read_output(Output& output);
  void look_at_end();

  Parts parts_;
  sys::FrameReader frames_;
  std::string input_;  // not taken yet
  bool input_ended_ = false;
  std::string out_;   // not sent yet
  std::string last_;  // the frame after everything else; not empty: it has ended
};

// Says the last word, and waits for the other side to have read it and hung up.
void end_stream(int peer, std::string_view frames);

// So that nobody has to wait who writes to it. A descriptor that others share is opened anew.
[[nodiscard]] UniqueFd unblocked(UniqueFd fd, bool shared);

}  // namespace divvy::agent
