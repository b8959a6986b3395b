// The texts under the options of `divvy serve`.
#pragma once

namespace divvy::cli {

constexpr const char* kServeFooter =
    R"(A service is a command that is kept running as several replicas behind one port. Each
replica is a job of yours and finds the port where it has to listen in $PORT; requests to the
service's port go to those whose ready path answers. A replica that ends is replaced, an update
takes over replica by replica and is taken back when it does not get ready.

--replicas 1..5 adds replicas while there are more than --in-flight requests for each, and takes
them away when fewer have been enough for a while. --latency 50ms decides by how long answers take
to begin instead, --gpu-use 70 by how much of its share of the GPU each replica uses; where several
of the three are named, the most of what each asks for. --replicas 0..5 also goes to none; the next
request then waits until a replica is there.

Services listen on this machine alone unless services.address of divvyd says otherwise, and
whoever reaches one may use it. They need haproxy, which Divvy starts itself.

Examples:
  divvy serve chat --replicas 3 --gpu 0.2 --class latency --port 8000 --ready /health -- ./server
  divvy serve chat --replicas 0..5 --gpu 1 --port 8000 --image ghcr.io/team/chat:1
  divvy serve update chat -- ./server --model better
  divvy serve update chat --weight 10 -- ./server --model better
  divvy serve promote chat
  divvy serve scale chat --replicas 5)";

constexpr const char* kServeUpdateFooter =
    R"(What is not named is as in the version that runs. Replicas of the new version come one by
one, and one of the old version goes when another one is ready, so there has to be a place for one
more. A version that is not ready in time, or ends three times, is taken back.

With --weight below 100 the new version gets that part of the requests, and stays so until
`divvy serve promote` or `divvy serve rollback`.

Examples:
  divvy serve update chat --wait -- ./server --model better
  divvy serve update chat --gpu 0.4
  divvy serve update chat --weight 10 --image ghcr.io/team/chat:2)";

constexpr const char* kServeScaleFooter = R"(Examples:
  divvy serve scale chat --replicas 5
  divvy serve scale chat --replicas 0..8 --in-flight 4 --idle 10m
  divvy serve scale chat --replicas 1..8 --gpu-use 70
  divvy serve scale chat --latency 0 --in-flight 8)";

constexpr const char* kServePromoteFooter = R"(Examples:
  divvy serve promote chat
  divvy serve promote chat --weight 50)";

constexpr const char* kServeRollbackFooter =
    R"(A version on its way is taken back. Where there is none, the version that ran before comes
again, or the one that is named, replica by replica.

Examples:
  divvy serve rollback chat
  divvy serve rollback chat --to 3)";

}  // namespace divvy::cli
