// A program that is a shepherd, as `divvyd --shepherd FOLDER` is, for the tests of this room.
#include "run/shepherd.h"

#include <string_view>

int main(int argc, char** argv) {
  if (argc == 3 && std::string_view(argv[1]) == "--remove-container") {
    return divvy::run::run_removal(argv[2]);
  }
  return argc == 2 ? divvy::run::run_shepherd(argv[1]) : 2;
}
