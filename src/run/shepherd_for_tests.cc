// A program that is a shepherd, as `divvyd --shepherd FOLDER` is, for the tests of this room.
#include "run/shepherd.h"

int main(int argc, char** argv) { return argc == 2 ? divvy::run::run_shepherd(argv[1]) : 2; }
