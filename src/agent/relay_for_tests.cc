// A program that is a relay, as `divvyd --relay FOLDER` is, for the tests of this room.
#include "agent/relay.h"

int main(int argc, char** argv) { return argc == 2 ? divvy::agent::run_relay(argv[1]) : 2; }
