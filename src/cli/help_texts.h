// The texts under the options of `divvy --help` and of each command.
#pragma once

namespace divvy::cli {

constexpr const char* kMainFooter = R"(Examples:
  divvy run --gpu 0.3 -- python train.py   a command on three tenths of a GPU
  divvy ps                           who holds what, and uses how much of it
  divvy top                          the same, live
  divvy set train-3 --gpu 0.5        change a slice while it is in use
  divvy gpus                         the GPUs of this machine
  divvy gpus --topology              how they are connected
  divvy gpus -o json                 the same for a program
  DIVVY_SIM_GPUS=4 divvy gpus        four simulated GPUs, on any machine

Exit status:
  0  it worked
  1  it did not work; standard error says why
  2  the command line was wrong
  3  there is no such tenant or GPU
  5  it belongs to somebody else
  divvy run: that of the command, 75 when it does not fit now, 124 when --timeout
  was not enough, 126 or 127 when the command cannot be run or found

Colours appear on a terminal; NO_COLOR=1 or --color never turns them off.
`divvy COMMAND --help` tells more about a command.)";

constexpr const char* kGpusFooter = R"(Output formats:
  table   one line per GPU (the default)
  wide    also UUID, PCI address, NUMA node, NVLink peers and driver
  json    everything, in the schema divvy/v1; what is not known is null
  yaml    the same as YAML
  name    one UUID per line

Examples:
  divvy gpus -o wide
  divvy gpus --topology -o json
  DIVVY_SIM_GPUS=8xH100 divvy gpus   eight simulated H100s

A GPU that does not answer every question is listed with what is known; the
lines under the table say what is missing and why. --color works here too.)";

constexpr const char* kRunFooter =
    R"(The command gets at least its share of the GPU when others want it too, what is
idle besides (unless --cap), and never more memory than its slice has. Its exit
status, signals and terminal are its own: `divvy run` becomes the command. The
slice is given back when the command and everything it started are gone.

Where no divvyd runs, one is started in the background.

Examples:
  divvy run --gpu 0.3 --gpu-mem 10GiB -- python train.py
  divvy run --gpu 2.5 -- torchrun --nproc-per-node 3 train.py
  divvy run --gpu 0.2 --class latency -- ./server
  divvy run --gpu 0.5 --wait --timeout 600 -- ./job
  DIVVY_SIM_GPUS=2 divvy run --gpu 0.5 -- gpuload spin   on simulated GPUs

Exit status: that of the command, or
  75   it does not fit now; standard error says who holds what
  124  --timeout was not enough
  126  the command cannot be run
  127  there is no such command
  1, 2, 3, 5  as for every other command of divvy)";

constexpr const char* kSetFooter =
    R"(Takes effect at once, for everything that runs in the tenant. The number of GPUs
of a tenant stays as it is. Only its own user and root may do this.

Examples:
  divvy set train-3 --gpu 0.5
  divvy set 3 --gpu 0.2 --cap
  divvy set server --class latency)";

constexpr const char* kPsFooter = R"(Columns:
  SHARE    of the GPU's compute that is guaranteed; "cap": also the most
  USED     part of the GPU's time in the last second, measured
  MEMORY   in use now, LIMIT the most it can be, PEAK the most it was
  WAITING  part of the last second in which it had work and others ran

Output formats: table, wide (also mode, times, refused allocations, processes),
json and yaml (everything, in the schema divvy/v1).)";

constexpr const char* kTopFooter = R"(Keys:
  s   sort by the next column        p   pause
  /   show only some tenants         q   quit
  ?   help

Examples:
  divvy top
  divvy top --once          one picture, for a log
  divvy top -o json         everything, in the schema divvy/v1)";

}  // namespace divvy::cli
