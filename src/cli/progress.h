// A bar that tells how far a long command is, on standard error and only where a person looks: on
// anything but a terminal it writes nothing. Used by one thread.
#pragma once

#include <cstddef>
#include <iosfwd>
#include <string>

#include "cli/style.h"

namespace divvy::cli {

class Progress {
 public:
  // Nothing is written unless `shown`. The stream outlives it.
  Progress(std::ostream& err, bool shown, const Style& style);
  // Takes the bar away again.
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  // `done` of `total`; `what` is being done, for the text beside the bar. Cheap to call often: only
  // what looks different is written.
  void show(std::size_t done, std::size_t total, const std::string& what);

 private:
  std::ostream& err_;
  bool shown_;
  Style style_;
  std::string line_;
};

}  // namespace divvy::cli
