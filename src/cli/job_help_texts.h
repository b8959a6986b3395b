// The texts under the options of the commands about jobs.
#pragma once

namespace divvy::cli {

constexpr const char* kSubmitFooter =
    R"(The job waits in its queue until it fits, whatever happens to this terminal or to
divvyd. What follows -- is its command, to the letter. It runs in this folder (--cwd) with
your PATH; of your other variables it has those that --export names. Options go before what
the job file says. Where no divvyd runs on this machine, one is started.

A job file is YAML with the fields of docs/job-file.md:
  name: train
  gpu: 0.3
  gpu_memory: 10GiB
  command: [python, train.py]

Examples:
  divvy submit --gpu 0.3 -- python train.py
  divvy submit --gpu 1 --members 4 -- torchrun train.py
  divvy submit -f job.yaml --name again --priority 10
  divvy submit -f job.yaml --dry-run -o yaml
  divvy submit --template tune --set data=/data/books
  divvy submit --array 0-99%10 -- ./task
  divvy submit --follow --gpu 0.5 -- ./test

Exit status: 0 it was taken. With --wait and --follow that of the job: of the first
member that failed, 128 and the signal where one killed it; 124 when --timeout was
not enough; 130 after Ctrl-C, which only ends the looking.)";

constexpr const char* kTemplatesFooter =
    R"(A template is a file NAME.yaml in ~/.config/divvy/templates, or from the operator in
/etc/divvy/templates; of two with one name yours counts:
  summary: Fine-tune a model
  values:
    data:
    epochs: 3
  job:
    gpu: 0.3
    command: [python, tune.py, "--data={data}", --epochs, "{epochs}"]

What stands behind job: is a job file (docs/job-file.md) in which {KEY} stands for a value: the one
of --set, or the one of the file; a value without one has to be set.

Examples:
  divvy templates
  divvy submit --template tune --set data=/data/books --set epochs=5
  divvy submit --template tune --set data=/data/books --gpu 1 -- python other.py)";

constexpr const char* kSubmitTorchFooter =
    R"(Each member runs `torchrun`, with as many processes as it has GPUs; they meet at the first
member (c10d). What follows -- goes to torchrun: its own options first, the script and its
arguments. All options of `divvy submit` are taken.

Examples:
  divvy submit torch --gpu 1 --members 4 -- train.py --epochs 3
  divvy submit torch --gpu 8 --members 2 --topology nvlink -- --max-restarts 3 -m my.train)";

constexpr const char* kSubmitMpiFooter =
    R"(Runs mpirun (Open MPI) in the first member, with as many processes in each member as it has
GPUs. Its daemons are started in the other members by Divvy, so there are no ssh, passwords or
files of hosts, and each process runs on the GPUs and within the limits of its member. What follows
-- goes to mpirun: its own options first, the program and its arguments. The job ends with mpirun
and as it does. All options of `divvy submit` but --image are taken.

mpirun has to be installed where the job runs: apt-get install openmpi-bin.

Examples:
  divvy submit mpi --gpu 1 --members 4 -- ./solver input.dat
  divvy submit mpi --gpu 0.5 --members 2 --processes 4 -- -x OMP_NUM_THREADS=2 ./solver)";

constexpr const char* kSweepFooter =
    R"(A sweep is what `divvy submit --sweep` made: a job for each combination of values. Of each
job the last line of its output that is a JSON object is read, and its numbers are shown:
  print(json.dumps({"loss": loss, "accuracy": accuracy}))

Examples:
  divvy submit --sweep lr=0.1,0.01 --sweep seed=0..4 -- python train.py --lr {lr} --seed {seed}
  divvy sweep python-3fa1c2
  divvy sweep python-3fa1c2 --metric loss --sort-by loss
  divvy sweep python-3fa1c2 -o csv > results.csv)";

constexpr const char* kScheduleFooter =
    R"(Examples:
  divvy submit --every "0 3 * * *" --name nightly --gpu 1 -- python train.py
  divvy submit --every @hourly --missed once --name report --gpu 0 -- ./report
  divvy schedule list
  divvy schedule suspend nightly)";

constexpr const char* kScheduleListFooter = R"(Columns:
  NEXT, LAST  when it runs next and ran last, in the time of the machine where divvyd is
  JOB         the job of the last run
  TROUBLE     why there was no run at its last time

Examples:
  divvy schedule list -o wide)";

constexpr const char* kScheduleSuspendFooter = R"(Examples:
  divvy schedule suspend nightly)";

constexpr const char* kScheduleResumeFooter = R"(Examples:
  divvy schedule resume nightly)";

constexpr const char* kScheduleDeleteFooter = R"(Examples:
  divvy schedule delete nightly)";

constexpr const char* kListFooter = R"(Columns:
  GPU    what each member gets; 4 x 1 is four members with a GPU each
  AGE    since it was submitted
  TIME   since it was started, up to its end

Examples:
  divvy list --mine -l sweep=7
  divvy list --all --since 2d --state failed,cancelled
  divvy list --watch
  divvy list -o json | jq '.items[].id'
  divvy list --sort-by -gpu -o wide)";

constexpr const char* kGetFooter = R"(Examples:
  divvy get 17
  divvy get train          the newest job of that name
  divvy get 17 -o json

Exit status: 0, or 3 when there is no such job.)";

constexpr const char* kDescribeFooter = R"(Examples:
  divvy describe 17
  divvy describe 17 -o yaml

Values of variables are not shown; -o json has them, for its owner.)";

constexpr const char* kExplainFooter = R"(Examples:
  divvy explain 17)";

constexpr const char* kLogsFooter =
    R"(With several members each line begins with the rank: [3] text. --follow goes on when the
job is started again and when divvyd is, and ends with the job. Ctrl-C ends the
looking, never the job.

Examples:
  divvy logs 17 -f
  divvy logs 17 --tail 100 --timestamps
  divvy logs train --rank 3 --since 10m

Exit status: 0, 3 when there is no such job, 5 when it is not yours, 130 after Ctrl-C.)";

constexpr const char* kWaitFooter = R"(Examples:
  divvy wait 17 18 19
  divvy wait train --for running --timeout 10m
  divvy wait 17 --for succeeded && ./next

Exit status: 0 it came so; 1 it never will (it failed, or was cancelled); 124 --timeout
was not enough; 130 after Ctrl-C, which only ends the waiting.)";

constexpr const char* kSuspendFooter =
    R"(It is told to end, has its grace, and gives its GPUs back. What it has not saved is lost,
unless it saves when it is told.

Examples:
  divvy suspend 17)";

constexpr const char* kResumeFooter = R"(It waits in its queue again, where it was.

Examples:
  divvy resume 17)";

constexpr const char* kRequeueFooter =
    R"(It is told to end, has its grace, and starts anew when it is its turn. That does not count
as a failure. One that has ended cannot go on: submit it anew.

Examples:
  divvy requeue 17)";

constexpr const char* kUpdateFooter =
    R"(Priority, time limit and the expected time change at any time before the end; queue and size
while the job waits. It keeps its place in line among its equals.

Examples:
  divvy update 17 --priority 10
  divvy update train --time-limit 4h
  divvy update -l sweep=7 --gpu 0.5 --queue night)";

constexpr const char* kDeleteFooter =
    R"(One that runs is told to end and has its grace. It stays in `divvy list --all` until
`divvy prune`, or until queue.keep_finished of divvyd has passed.

Examples:
  divvy delete 17 18
  divvy delete 20 --array
  divvy delete -l sweep=7        your own with that label)";

constexpr const char* kPruneFooter = R"(Examples:
  divvy prune
  divvy prune --older-than 1d --everybody)";

constexpr const char* kExecFooter =
    R"(For the owner of the job and admins, from anywhere. The command runs in the same place,
with the same environment, limits and slice, and ends with the job at the latest. It goes
on over a restart of divvyd and a loss of the network of up to ten minutes; after that it
is hung up.

Examples:
  divvy exec 17 -- nvidia-smi
  divvy exec -t 17 -- bash
  divvy exec train --rank 3 -- py-spy dump --pid 1

Exit status: that of the command; 126 or 127 when it cannot be run or found.)";

constexpr const char* kForwardFooter =
    R"(Listens on this machine and passes each connection on to a port of the job, from anywhere,
for the owner of the job and admins. Connections go on over a restart of divvyd and a loss
of the network of up to ten minutes. Runs until Ctrl-C.

Examples:
  divvy port-forward 17 8888
  divvy port-forward notebook 9999:8888 6006
  divvy port-forward train :8000 --rank 3

What goes wrong with a connection is said, and the others go on. Exit status: 0 after Ctrl-C.)";

constexpr const char* kSshFooter =
    R"(For the owner of the job and admins, from anywhere. The job needs sshd (openssh-server),
but no port, no service and no key. The session has the environment of the job, with its
slice, and goes on over a restart of divvyd and a loss of the network of up to ten
minutes. What follows -- is read by the shell there, as ssh does it.

Examples:
  divvy ssh 17
  divvy ssh train -- 'cd data && ls'
  divvy ssh -t train --rank 3 -- htop

Exit status: that of the command; 255 when ssh itself went wrong.)";

constexpr const char* kSshConfigFooter =
    R"(With it ssh, scp, rsync, git, VS Code and PyCharm find every job as divvy-NAME or
divvy-NUMBER. Blocks for the jobs that are named also say who logs in there, and stand in
lists of hosts. --write puts them into a file of their own, which ~/.ssh/config includes.

Examples:
  divvy ssh-config --write
  divvy ssh-config --write notebook train
  divvy ssh-config >> ~/.ssh/config
  scp model.pt divvy-17:/data/

How to connect an editor: docs/remote-work.md.)";

constexpr const char* kSshProxyFooter =
    R"(What ssh uses as its ProxyCommand: starts an sshd in the job for one connection, and
passes on what the two say to each other.

Examples:
  ssh -o ProxyCommand='divvy ssh-proxy %n' divvy-17)";

constexpr const char* kAttachFooter =
    R"(Shows what the job writes from now on, and passes on what is typed where the job reads
it. Ctrl-C detaches and never ends the job.

Examples:
  divvy attach 17
  divvy attach 17 --no-stdin

Exit status: that of the member; 130 after Ctrl-C.)";

constexpr const char* kCopyFooter =
    R"(For the owner of the job and admins, from anywhere; with a container it is the container's
files. Folders are copied with all that is in them. Into a job, the target is a folder
that is there. The job needs tar.

Examples:
  divvy cp 17:/data/model.pt .
  divvy cp 17:/data/run-3 results
  divvy cp config.yaml 17:/tmp)";

constexpr const char* kCompletionFooter = R"(Examples:
  source <(divvy completion bash)                                this shell
  divvy completion bash > /etc/bash_completion.d/divvy           every bash
  divvy completion zsh > "${fpath[1]}/_divvy"
  divvy completion fish > ~/.config/fish/completions/divvy.fish

Names of jobs, queues, users and GPUs come from divvyd while you type.)";

constexpr const char* kManFooter =
    R"(On a terminal it opens with `man` in your pager; elsewhere it is printed.

Examples:
  divvy man submit
  divvy man --to /usr/local/share/man/man1)";

}  // namespace divvy::cli
