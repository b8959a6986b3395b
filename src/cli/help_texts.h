// The texts under the options of `divvy --help` and of each command.
#pragma once

namespace divvy::cli {

constexpr const char* kMainFooter = R"(Examples:
  divvy submit --gpu 0.3 -- python train.py   a job on three tenths of a GPU
  divvy list                         jobs that wait and run
  divvy get 17                       how one stands: its place in line, why, until when
  divvy logs 17 -f                   what it writes
  divvy run --gpu 0.3 -- python train.py   a command here and now, without a queue
  divvy ps                           who holds what, and uses how much of it
  divvy top                          the same, live
  divvy set train-3 --gpu 0.5        change a slice while it is in use
  divvy gpus                         the GPUs of this machine
  divvy gpu drain 3                  take a GPU out of use
  divvy gpus -o json                 the same for a program
  DIVVY_SIM_GPUS=4 divvy gpus        four simulated GPUs, on any machine
  divvy doctor                       is this machine as it should be?

Exit status:
  0  it worked
  1  it did not work; standard error says why
  2  the command line, or a file that it names, was wrong
  3  there is no such job, tenant, GPU or context
  5  it belongs to somebody else, or the token is not valid
  75   it does not fit now (run, slice create)
  124  --timeout was not enough (run, submit, wait)
  126  the command cannot be run, 127 there is no such command (run, exec)
  130  Ctrl-C ended the looking; the job goes on (logs, wait, attach, --watch)
  run, exec, attach and submit --wait have the exit status of the command or job

Environment:
  DIVVY_CONTEXT  the context to ask, instead of the one in use
  DIVVY_SERVER   the divvyd to ask: https://HOST:PORT or unix:PATH; DIVVY_CA its authorities
  DIVVY_TOKEN    the token to show, instead of the context's
  DIVVY_CONFIG   the file of contexts (~/.config/divvy/config.yaml)
  NO_COLOR       no colours

Data goes to standard output, everything else to standard error. Colours appear on a
terminal; NO_COLOR=1 or --color never turns them off.
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

constexpr const char* kDoctorFooter =
    R"(Looks at the driver, the daemon, its folders and library, and the machine, and
changes nothing. Each line is ok, a note, a warning or an error; what to do about
it stands below. Root sees more than others.

Exit status: 0 no errors, 1 errors.

Examples:
  divvy doctor
  divvy doctor -o json
  DIVVY_SIM_GPUS=2 divvy doctor      with simulated GPUs)";

constexpr const char* kGpuFooter = R"(States:
  healthy      gets work
  suspect      something odd was seen; no new work until it has been quiet
  quarantined  out of order; probed from time to time
  probation    the probe passed; watched before it is trusted

Examples:
  divvy gpu list
  divvy gpu cordon 3 --reason "fan is loud"
  divvy gpu drain 3 --deadline 600
  divvy gpu uncordon 3

Cordon, drain and uncordon are for root and the user of divvyd. A drain without
--deadline ends nobody; `divvy events --follow` says when the last one has gone.)";

constexpr const char* kNodesFooter = R"(Examples:
  divvy nodes
  divvy --context prod nodes)";

constexpr const char* kEventsFooter = R"(Kinds:
  health                    a GPU changed its state
  xid, probe                the driver reported an error; a probe failed
  cordon, drain, uncordon   an operator's word; drained: nobody is left on the GPU
  tenant                    a tenant was told about its GPU, or is being ended
  sampler                   the process that asks the driver was started anew

Examples:
  divvy events --follow
  divvy events --follow -o json   one JSON object per line
  divvy events --job 17           what happened to a job
  divvy events --jobs --follow    what happens to all of them)";

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

constexpr const char* kSliceFooter = R"(Examples:
  divvy slice create web --gpu 0.3   three tenths of a GPU for a container
  podman run --device divvy.dev/slice=web IMAGE COMMAND
  divvy slice list
  divvy slice delete web

A slice stays until it is deleted, whether a container uses it or not, and also
over a restart of the machine. Everything that runs in containers with the slice
shares it. docs/containers.md tells more.)";

constexpr const char* kSliceCreateFooter =
    R"(Prints the name of the device to give to the container. One slice per container;
a slice may have several GPUs.

Examples:
  divvy slice create web --gpu 0.3 --gpu-mem 10GiB --class latency
  divvy slice create train --gpu 2 --device 0 --device 1

Exit status 75: it does not fit now; standard error says who holds what.)";

constexpr const char* kCdiShowFooter =
    R"(Prints what divvyd writes for container runtimes about whole GPUs: device files,
and the files of the driver with the places that they get in a container. A file of
your own made of it has to be made anew after an update of the driver; divvyd does
so by itself.

Examples:
  divvy cdi show > /etc/cdi/divvy.dev-gpu.json
  podman run --device divvy.dev/gpu=0 IMAGE nvidia-smi)";

constexpr const char* kCdiCleanFooter =
    R"(For a machine that Divvy is to leave. Files of others stay. Held slices stay on
divvyd's books: a divvyd that is started again writes their files anew.)";

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

constexpr const char* kTopNodesFooter = R"(Columns:
  HELD, USED           GPUs: what is guaranteed to somebody, and what was used of
                       their time in the last second
  MEMORY HELD, USED    of the memory of its GPUs (MEMORY): what may be used, and what is
  WHO WAITS            had work in the last second while others ran; those that
                       waited most at first

On a terminal it is shown again every second (p pause, q quit); with -o, --once or
into a pipe it is printed once. Nodes that use most come first.

Examples:
  divvy top nodes
  divvy top nodes -o json
  divvy top nodes --once --sort-by=-held)";

constexpr const char* kTopJobsFooter = R"(Columns:
  HELD, USED     GPUs: what all its members are guaranteed, and what they used in
                 the last second; - where nobody can tell
  MEMORY USED    in use now, LIMIT the most it can be
  WAITING        part of the last second in which it had work and others ran, of
                 the slice that waited most

Slices of `divvy run` and `divvy slice create` are there, too. On a terminal it is
shown again every second (p pause, q quit); with -o, --once or into a pipe it is
printed once. Jobs that use most come first.

Examples:
  divvy top jobs
  divvy top jobs -o wide
  divvy top jobs --sort-by=-memory-used)";

constexpr const char* kLedgerFooter =
    R"(The ledger is the file in which divvyd keeps who holds which slice and which GPUs
are cordoned. Both commands only read it, with divvyd running or not; only the user
whose file it is, and root, can.

Examples:
  divvy ledger show
  divvy ledger verify && echo all of it can be read
  divvy ledger show --state-dir /mnt/disk/var/lib/divvy -o json

Exit status of both: 0 clean, 1 damaged, 3 there is no ledger, 5 not yours to read.)";

constexpr const char* kBenchFooter = R"(Examples:
  divvy bench place                 clusters of 1,000, 10,000 and 100,000 GPUs)";

constexpr const char* kBenchPlaceFooter = R"(
fill    requests come until as much was asked for as there is
steady  the cluster stays nearly full while members come and go; that they leave is counted apart
gang    members that start together, with and without having to be near each other
load    the whole cluster from its record, with all members, and the first decision
PER SECOND is by the CPU time of the one thread that decides; P50 to P99.9 are by
the clock on the wall, so a busy machine shows in them.

Examples:
  divvy bench place --gpus 100000
  divvy bench place --nodes nodes.csv --pods pods.csv --gpus 6212 -o json)";

constexpr const char* kSimFooter = R"(Examples:
  divvy sim pack --nodes nodes.csv --pods pods.csv --sequence order.txt --policy fgd,divvy
  divvy sim jobs --trace jobs.csv --policy fifo,divvy
  divvy sim cluster faults.scenario

Nothing here needs a GPU or a daemon. The same files, policy and seed give the
same figures on every machine. `divvy sim COMMAND --help` tells more.)";

constexpr const char* kSimPackFooter =
    R"(  divvy=3,spread=1 weighs several against each other; the first chooses the GPUs

Files:
  nodes     columns sn (or name), cpu_milli, memory_mib, gpu, model
  pods      columns name, cpu_milli, memory_mib, num_gpu, gpu_milli and, where there
            is one, gpu_spec: the models that will do, as in A|B
  sequence  the name of a pod on each line, or the number that it ends with
CSV with a line of column names; all of them may be compressed with gzip.

Each pod goes where the policy says, or nowhere if it fits nowhere. Rows of the
table are levels: what had arrived, in percent of all GPUs. At each level:
  ALLOCATED    handed out, in percent of all GPUs; UNALLOCATED the rest
  FRAGMENTED   free, and of no use to the pods that usually come
  OF FREE      the same in percent of what is free
With several policies the table shows ALLOCATED of each; with several sequences
it shows means. JSON has everything, for each sequence and as means.

Examples:
  divvy sim pack --nodes nodes.csv --pods pods.csv --sequence order.txt.gz
  divvy sim pack --nodes nodes.csv --pods pods.csv --sequence a.txt --sequence b.txt \
    --policy fgd,bestfit --policy divvy --levels 90-130 --plot curves.svg
  divvy sim pack --nodes nodes.csv --pods pods.csv --sequence a.txt -o json

Nodes on which a pod does equally well are taken in an order that --seed draws: it
is that of the first sequence, the next number that of the next.
Exit status 2: a file could not be read; standard error names file, line and reason.)";

constexpr const char* kSimJobsFooter = R"(
A restart costs, as published for each model and number of GPUs, at every event
of the simulation (protocol), or only where a job really starts again (real).
With --share resources jobs take turns on storage, GPU and network as the trace's
resource_time_0..2 tell; what that gains is only as good as this model.
Times are in seconds: AVG JCT and P99 JCT from submission to end of a job,
MAKESPAN until the last one has ended.

Examples:
  divvy sim jobs --trace jobs.csv --policy srtf -o json
  divvy sim jobs --trace jobs.csv --policy fifo,las,divvy --restart-cost real

Exit status 2: the file could not be read; standard error names file, line and reason.)";

constexpr const char* kSimClusterFooter = R"(
A scenario is a text file: nodes, then what happens and what is expected.
  node a gpus=4
  submit train gpus=2.5 lasts=60
  at 30 lose a "power supply"
  expect train waits "lost: power supply"

Examples:
  divvy sim cluster faults.scenario
  divvy sim cluster faults.scenario --policy fgd -o json
  divvy --context prod sim cluster --from-kube --add-nodes 2

Exit status 1: something was not as expected; the last lines say what and where.
Exit status 2: the file could not be read; standard error names file, line and reason.)";

constexpr const char* kBackupFooter =
    R"(divvyd writes the file while everybody goes on working: whole as of one moment, readable
for its owner only. For root and the user of divvyd.

Example:
  divvy backup /backup/divvy-$(date +%F).db)";

constexpr const char* kRestoreFooter =
    R"(For root and the user of divvyd, while divvyd does not run. Everything is put back at once
or nothing is. Members of jobs that the backup does not know are ended when divvyd starts.

Example:
  systemctl stop divvyd && divvy restore /backup/divvy.db && systemctl start divvyd)";

}  // namespace divvy::cli
