#include "api/openapi_schemas.h"

#include <array>

namespace divvy::api {
namespace {

// clang-format off
constexpr FieldRow kProblem[] = {
    {"type", "text", ""}, {"title", "text", ""}, {"status", "integer(400..599)", ""},
    {"detail", "text", "One sentence: the field, what is wrong, what to do"},
    {"advice", "text-", ""}, {"ever", "boolean-", "It would fit if others left"},
    {"gpus", "[object]-", ""}};

constexpr FieldRow kMount[] = {
    {"source", "text", ""}, {"target", "text", ""}, {"read_only", "boolean-", ""}};
constexpr FieldRow kPort[] = {{"host", "integer(1..65535)", ""}, {"container", "integer(1..65535)", ""}};
constexpr FieldRow kContainer[] = {
    {"image", "text", ""}, {"mounts", "[Mount]-", ""}, {"ports", "[Port]-", ""},
    {"entry_point", "[text]?-", "Instead of the image's"}};
constexpr FieldRow kUlimit[] = {
    {"soft", "integer|<unlimited>", ""}, {"hard", "integer|<unlimited>", ""}};
constexpr FieldRow kLimits[] = {
    {"cpu_milli", "count?-", "1500 is one and a half CPUs"}, {"ram", "bytes?-", ""},
    {"pids", "count?-", ""}, {"shm", "bytes?-", ""},
    {"ulimits", "{integer|<unlimited>|Ulimit}-", "By the names of ulimit(1)"}};
constexpr FieldRow kArray[] = {
    {"first", "count-", ""}, {"last", "count-", ""}, {"step", "integer(1..4294967295)-", ""},
    {"at_once", "count-", "0: as many as fit"}};
constexpr FieldRow kDependency[] = {
    {"job", "id", ""}, {"kind", "<succeeded,failed,ended>-", ""}};
constexpr FieldRow kRetry[] = {
    {"most", "integer(0..1000)-", ""}, {"pause", "seconds-", ""}, {"longest_pause", "seconds-", ""}};
constexpr FieldRow kNotify[] = {
    {"url", "text", "http or https, at most 1000 characters"},
    {"on", "[<succeeded,failed,cancelled>]-", "Of which ends; without: of all"}};
constexpr FieldRow kNear[] = {
    {"closeness", "<any,zone,rack,node,numa,pcie,nvlink>-", ""},
    {"required", "boolean-", "Otherwise it is tried first"}};
constexpr FieldRow kSpread[] = {
    {"domain", "<node,rack,zone>-", ""}, {"most", "count-", "Members in one of them"}};
constexpr FieldRow kWhere[] = {
    {"nodes", "[text]-", "Only these"}, {"nodes_denied", "[text]-", "Never these"},
    {"node_labels", "{text|integer}-", "The node has all of them"},
    {"tolerations", "[text]-", "Taints of nodes that do not matter"},
    {"gpus_near", "Near-", "The GPUs of one member"}, {"members_near", "Near-", "The members"},
    {"spread", "Spread?-", "Members that should not fall together"}};
constexpr FieldRow kJobSpec[] = {
    {"name", "name|<>-", ""}, {"queue", "queue-", ""}, {"command", "[text]-", ""},
    {"environment", "{text|integer}-", ""},
    {"secrets", "{text|integer}-", "Variables that hold a secret of the owner, by its name"},
    {"working_directory", "text-", ""},
    {"container", "Container?-", "Without it: a plain process"},
    {"gpu", "share?-", "For each member: 0.3, 2.5, 4, 0; without it gpu_memory says how much"},
    {"gpu_memory", "bytes?-", "The limit on each GPU; without it the same part as of the GPU"},
    {"cap", "boolean-", "Never more than the share"}, {"models", "[text]-", ""},
    {"models_denied", "[text]-", ""}, {"topology", "<any,numa,nvlink>-", ""},
    {"members", "integer(1..4294967295)-", "Start together or not at all"},
    {"least_members", "count-", "0: all"}, {"devices", "[text]-", ""},
    {"where", "Where-", "Which nodes will do, and how close to each other"},
    {"class", "<batch,latency>-", ""}, {"limits", "Limits-", ""}, {"priority", "integer(-1000..1000)-", ""},
    {"stdin", "boolean-", "Whoever attaches may type to it"},
    {"preemptible", "boolean-", ""}, {"grace", "seconds-", "\"30s\", or seconds"},
    {"minimum_run", "seconds-", ""}, {"time_limit", "seconds?-", ""},
    {"expected", "seconds?-", ""}, {"array", "Array?-", ""},
    {"after", "[id|Dependency]-", ""}, {"retry", "Retry-", ""}, {"labels", "{text|integer}-", ""},
    {"notify", "Notify?-", "A webhook that is told of its end"},
    {"mode", "<timeslice,mps>?-", "How its GPU is shared; null: as the machine is set up"},
    {"holder", "<members,process,slice>-", "What uses its slices; members in a new job"},
    {"hold_for_capacity", "boolean-", "Wait also for GPUs that are not there"}};

constexpr FieldRow kJobChange[] = {
    {"priority", "integer(-1000..1000)-", ""}, {"time_limit", "seconds?-", ""},
    {"expected", "seconds?-", ""}, {"queue", "queue-", "While it waits"},
    {"gpu", "share?-", "While it waits"}, {"gpu_memory", "bytes?-", "While it waits"},
    {"members", "integer(1..4294967295)-", "While it waits"}};

constexpr FieldRow kStep[] = {
    {"unixMilliseconds", "integer", ""}, {"state", "state", ""}, {"reason", "text", ""}};
constexpr FieldRow kSlice[] = {
    {"gpu", "text", "UUID"}, {"shareThousandths", "integer", ""}, {"capped", "boolean", ""},
    {"memoryLimitBytes", "integer", ""}};
constexpr FieldRow kEnd[] = {
    {"unixMilliseconds", "integer", ""}, {"exitCode", "integer", ""}, {"signal", "integer", ""},
    {"reason", "text", ""},
    {"cpuMilliseconds", "integer?-", "For its owner and admins, as far as it is known"},
    {"ramPeakBytes", "integer?-", ""},
    {"gpuMemoryPeakBytes", "integer?-", "On that of its GPUs on which it was the most"}};
constexpr FieldRow kMember[] = {
    {"rank", "integer", ""}, {"node", "text", ""}, {"slices", "[Slice]", ""}, {"end", "End?", ""}};
constexpr FieldRow kAccounting[] = {
    {"waitedMilliseconds", "integer?", "From the submission to the first start"},
    {"ranMilliseconds", "integer", "All attempts together"},
    {"gpuHeldMilliseconds", "integer", "One GPU for a millisecond, or a part of one for longer"},
    {"gpuUsedMilliseconds", "integer", "Likewise, in which it did something"},
    {"gpuMemoryPeakBytes", "integer?", "Of the member that had the most on one GPU"},
    {"cpuMilliseconds", "integer?", "Of members that have ended"},
    {"ramPeakBytes", "integer?", "Of the member that had the most"}};
constexpr FieldRow kWait[] = {
    {"kind", "<nothing,suspended,dependency,back-off,array,quota,room,reservation,full,never,next>", ""},
    {"text", "text", ""}, {"place", "integer?", "In line, from 1"},
    {"inLine", "integer", ""}, {"startsUnixMilliseconds", "integer?", "The best guess, Unix milliseconds"}};
constexpr FieldRow kJob[] = {
    {"apiVersion", "text-", ""}, {"kind", "text-", ""},
    {"id", "id", ""}, {"name", "text", ""}, {"owner", "text", ""}, {"queue", "text", ""},
    {"state", "state", ""},
    {"stopping", "<cancelled,suspended,preempted,reclaimed,time-limit,idle,member-failed,place-lost>?", "Why"},
    {"class", "<batch,latency>", ""}, {"priority", "integer", ""},
    {"members", "integer", ""}, {"shareThousandths", "integer", "Of a GPU, for each member"},
    {"gpuMemoryBytes", "integer?", "On each GPU, where it was named; without a share it says how much of one"},
    {"array", "integer?", "First job of its array"}, {"arrayIndex", "integer?", ""},
    {"submittedUnixMilliseconds", "integer", ""}, {"startedUnixMilliseconds", "integer?", ""},
    {"endedUnixMilliseconds", "integer?", ""}, {"notBeforeUnixMilliseconds", "integer?", ""},
    {"attempt", "integer", "0: never started"}, {"failures", "integer", ""},
    {"running", "[Member]", "Of the present or last attempt"},
    {"history", "[Step]-", "For its owner and admins"},
    {"spec", "JobSpec-", "For its owner and admins"},
    {"waits", "Wait?-", ""}, {"idleLeftSeconds", "integer?-", "Until it is ended for not using its GPU"},
    {"accounting", "Accounting?-", "For its owner and admins, where one job is asked for"}};
constexpr FieldRow kJobList[] = {
    {"apiVersion", "text", ""}, {"kind", "text", ""}, {"items", "[Job]", ""},
    {"next", "integer?-", "`after` of the next page"}, {"dryRun", "boolean-", ""}};
constexpr FieldRow kExplanation[] = {
    {"apiVersion", "text", ""}, {"kind", "text", ""}, {"job", "id", ""}, {"state", "state", ""},
    {"waits", "Wait", ""}, {"details", "text", ""}};
constexpr FieldRow kAttempt[] = {
    {"attempt", "integer", ""}, {"startedUnixMilliseconds", "integer?", ""},
    {"members", "[Member]", ""}};
constexpr FieldRow kAttemptList[] = {
    {"apiVersion", "text", ""}, {"kind", "text", ""}, {"items", "[Attempt]", ""}};
constexpr FieldRow kPlace[] = {
    {"rank", "integer", ""}, {"name", "text", ""}, {"node", "text", ""},
    {"phase", "<living,ended,lost>?", ""}, {"pid", "integer", ""}, {"without", "text", "Limits that it runs without"}};
constexpr FieldRow kChannelRequest[] = {
    {"channel", "text", "Its name: 64 digits of 0-9 and a-f, which nobody else can guess"},
    {"kind", "<exec,attach,copy-in,copy-out,port>", ""}, {"rank", "count?-", "Of the member; 0"},
    {"command", "[text]?-", "Of exec"}, {"environment", "[text]?-", "Of exec: NAME=VALUE"},
    {"path", "text?-", "Working folder of exec; of copies"}, {"terminal", "boolean?-", "Of exec"},
    {"rows", "integer(1..65535)?-", ""}, {"columns", "integer(1..65535)?-", ""},
    {"port", "integer(1..65535)?-", ""}};
constexpr FieldRow kChannel[] = {
    {"apiVersion", "text", ""}, {"kind", "text", ""}, {"channel", "text", ""}, {"rank", "integer", ""},
    {"keep_seconds", "integer", "So long it waits for a client without a connection"}};
constexpr FieldRow kMemberList[] = {
    {"apiVersion", "text", ""}, {"kind", "text", ""}, {"items", "[Place]", ""}};
constexpr FieldRow kUse[] = {
    {"rank", "integer", ""}, {"gpu", "text", "UUID"},
    {"unixMilliseconds", "[integer]", "When it was measured, the oldest first"},
    {"usedShareThousandths", "[integer]", "Then, of the GPU"},
    {"memoryUsedMebibytes", "[integer]", "Then"}};
constexpr FieldRow kUseList[] = {
    {"apiVersion", "text", ""}, {"kind", "text", ""}, {"items", "[Use]", ""}};
constexpr FieldRow kPruneRequest[] = {
    {"older_than", "seconds?-", ""}, {"everybody", "boolean?-", "For admins"}};
constexpr FieldRow kPruneResult[] = {
    {"apiVersion", "text", ""}, {"kind", "text", ""}, {"jobs", "[id]", ""}};

constexpr FieldRow kPersonRequest[] = {
    {"name", "name-", "To add one"}, {"role", "<admin,user>?-", ""}, {"uid", "count?-", ""},
    {"disabled", "boolean?-", ""}};
constexpr FieldRow kPerson[] = {
    {"apiVersion", "text-", ""}, {"kind", "text-", ""}, {"name", "text", ""}, {"role", "<admin,user>-", ""},
    {"uid", "count?-", ""}, {"createdUnixMilliseconds", "integer-", ""},
    {"disabled", "boolean-", ""}, {"removed", "boolean-", ""}};
constexpr FieldRow kPersonList[] = {
    {"apiVersion", "text", ""}, {"kind", "text", ""}, {"items", "[Person]", ""}};
constexpr FieldRow kTokenRequest[] = {
    {"user", "name?-", "Of others: for admins"}, {"label", "text?-", ""},
    {"expires_in", "seconds?-", ""}};
constexpr FieldRow kToken[] = {
    {"apiVersion", "text-", ""}, {"kind", "text-", ""}, {"id", "text", ""}, {"user", "text-", ""},
    {"label", "text-", ""}, {"createdUnixMilliseconds", "integer-", ""},
    {"expiresUnixMilliseconds", "integer?-", ""}, {"lastUsedUnixMilliseconds", "integer?-", ""},
    {"revokedUnixMilliseconds", "integer?-", ""}, {"revoked", "boolean-", ""},
    {"token", "text-", "When it is made, and never again"}};
constexpr FieldRow kTokenList[] = {
    {"apiVersion", "text", ""}, {"kind", "text", ""}, {"items", "[Token]", ""}};

constexpr FieldRow kSession[] = {
    {"apiVersion", "text", ""}, {"kind", "text", ""}, {"user", "text", ""},
    {"key", "text-", "When it begins: the header X-Divvy-Session of its requests"}};
constexpr FieldRow kSignInOffer[] = {
    {"apiVersion", "text", ""}, {"kind", "text", ""}, {"provider", "text?", "Its name; null: there is none"},
    {"browser", "boolean", "It signs browsers in to the console"}};
constexpr FieldRow kBrowserSignIn[] = {
    {"apiVersion", "text", ""}, {"kind", "text", ""}, {"address", "text", "Where the browser goes next"}};
constexpr FieldRow kDeviceSignIn[] = {
    {"apiVersion", "text", ""}, {"kind", "text", ""}, {"address", "text", "Where the code is typed"},
    {"completeAddress", "text?", "The same with the code in it"}, {"userCode", "text", ""},
    {"login", "text", "A secret: what it is asked for by"}, {"expiresSeconds", "count", ""},
    {"pollSeconds", "count", "It is asked for no more often"}};
constexpr FieldRow kDeviceSignInQuestion[] = {{"login", "text", ""}};
constexpr FieldRow kDeviceSignInState[] = {
    {"apiVersion", "text", ""}, {"kind", "text", ""}, {"state", "<waiting,done>", ""},
    {"pollSeconds", "count-", "While it waits"}, {"user", "text-", "Once it is done"},
    {"token", "text-", "Likewise: once, and never again"},
    {"expiresUnixMilliseconds", "integer-", "Of the token"}};

constexpr FieldRow kQueueRequest[] = {
    {"gpu", "share?-", "What is promised to it"}, {"memory", "bytes?-", ""},
    {"jobs", "count?-", ""}, {"borrow", "boolean?-", ""}, {"most_gpu", "share?-", ""},
    {"weight", "count?-", ""}, {"user_gpu", "share?-", "Of one user in it"},
    {"user_memory", "bytes?-", ""}, {"user_jobs", "count?-", ""},
    {"default_time_limit", "seconds?-", "Of a job that names none"},
    {"max_time_limit", "seconds?-", "Also in the queues below"},
    {"idle_after", "seconds?-", ""}, {"idle_warning", "seconds?-", ""}};
constexpr FieldRow kQuotaRequest[] = {
    {"gpu", "share?-", ""}, {"memory", "bytes?-", ""}, {"jobs", "count?-", ""},
    {"weight", "count?-", ""}};
constexpr FieldRow kQuota[] = {
    {"gpu", "text?", ""}, {"memoryBytes", "integer?", ""}, {"jobs", "integer?", ""}};
constexpr FieldRow kQueue[] = {
    {"path", "text", ""}, {"quota", "Quota", ""}, {"mayBorrow", "boolean", ""},
    {"mostGpu", "text?", ""}, {"weight", "integer", ""},
    {"defaultTimeLimitSeconds", "integer?", "With what it has from the queues above"},
    {"maxTimeLimitSeconds", "integer?", ""}, {"held", "Quota", ""},
    {"borrowedGpu", "text", ""}, {"waiting", "integer", ""}, {"usedGpuHours", "number", "Decayed"},
    {"score", "number", "The lower goes first"}};
constexpr FieldRow kQueueList[] = {
    {"apiVersion", "text", ""}, {"kind", "text", ""}, {"items", "[Queue]", ""}};
constexpr FieldRow kUserQuota[] = {{"user", "text", ""}, {"most", "Quota", ""}, {"held", "Quota", ""}};
constexpr FieldRow kQuotaList[] = {
    {"apiVersion", "text", ""}, {"kind", "text", ""}, {"items", "[UserQuota]", ""}};
constexpr FieldRow kRemoved[] = {
    {"apiVersion", "text", ""}, {"kind", "text", ""}, {"name", "text", ""}, {"removed", "boolean", ""}};
constexpr FieldRow kUsage[] = {
    {"name", "text", ""}, {"jobs", "integer", ""}, {"heldShareThousandthSeconds", "integer", ""},
    {"usedShareThousandthSeconds", "integer", ""}, {"memoryMebibyteSeconds", "integer", ""},
    {"cpuMilliseconds", "integer", "Of members that have ended"}};
constexpr FieldRow kUsageReport[] = {
    {"apiVersion", "text", ""}, {"kind", "text", ""}, {"items", "[Usage]", ""}};
constexpr FieldRow kAuditEntry[] = {
    {"number", "integer", ""}, {"unixMilliseconds", "integer", ""}, {"user", "text", ""},
    {"from", "text", "\"uid 1000, pid 4711\", or an address"}, {"token", "text?", "Its id"},
    {"action", "text", "The operationId of what was asked for"}, {"object", "text", "The path"},
    {"status", "integer?", "Of the answer; null: none was given, so far or at all"},
    {"outcome", "text", "The path of what was made, or why it was refused"}};
constexpr FieldRow kAuditLog[] = {
    {"apiVersion", "text", ""}, {"kind", "text", ""}, {"items", "[AuditEntry]", ""},
    {"next", "integer?", "`after` of the next page"}};
constexpr FieldRow kSetting[] = {
    {"name", "text", "As in the file: queue.half_life"}, {"value", "text", "As it is written there"},
    {"meaning", "text", ""}, {"reloads", "boolean", "Without a restart"}};
constexpr FieldRow kSettingList[] = {
    {"apiVersion", "text", ""}, {"kind", "text", ""}, {"items", "[Setting]", ""}};
constexpr FieldRow kWhatIfNodes[] = {
    {"count", "integer(1..256)-", "Nodes; default 1"}, {"gpus", "integer(1..16)?-", "Of each; default: as many as it is like"},
    {"like", "text?-", "The node that they are copies of; default: the first"},
    {"to", "text?-", "Put the GPUs into this node instead"},
    {"model", "text?-", ""}, {"memory", "bytes?-", "Of each GPU"}};
constexpr FieldRow kWhatIfRequest[] = {
    {"add", "[WhatIfNodes]-", ""},
    {"without", "[text]-", "\"node-a\", or one GPU of it: \"node-a/3\""},
    {"policy", "text?-", "Of placement"}, {"preemption", "boolean?-", ""},
    {"queues", "{QueueRequest}-", "By path; what is not named stays"},
    {"users", "{QuotaRequest}-", "Likewise"}};
constexpr FieldRow kForecastWaits[] = {
    {"waiting", "integer", "Who waited at the beginning"}, {"notStarted", "integer", "Of those, as far as it was looked"},
    {"medianSeconds", "integer?", "From now to the start; null: for ever, as far as it was looked"},
    {"nineOfTenSeconds", "integer?", ""}, {"longestSeconds", "integer?", ""},
    {"averageSeconds", "integer?", "Of those that start"}};
constexpr FieldRow kForecastQueue[] = {
    {"path", "text", ""}, {"waits", "ForecastWaits", ""}, {"heldGpuHours", "number", "In the period"}};
constexpr FieldRow kForecast[] = {
    {"gpus", "number", "That take work"}, {"waits", "ForecastWaits", ""},
    {"restarts", "integer", "Of jobs that make way and begin anew"},
    {"allocation", "number", "Of the GPUs, from 0 to 1, over the period"},
    {"allocated", "[number]", "GPUs, on average in each part of the period"},
    {"reachedSeconds", "integer", "So far it was looked"},
    {"end", "<at-rest,horizon,out-of-time>", ""}, {"queues", "[ForecastQueue]", ""}};
constexpr FieldRow kWhatIfJob[] = {
    {"id", "id", ""}, {"name", "text", ""}, {"owner", "text", ""}, {"queue", "text", ""},
    {"lengthSeconds", "integer?", "As it was assumed; null: it does not end"},
    {"lengthFrom", "<expected,owner,time-limit,everybody,guess,endless>", ""},
    {"startsInSeconds", "integer?", "As things are; null: not as far as it was looked"},
    {"wouldStartInSeconds", "integer?", "With the changes"}};
constexpr FieldRow kWhatIf[] = {
    {"apiVersion", "text", ""}, {"kind", "text", ""},
    {"atUnixMilliseconds", "integer", ""}, {"periodSeconds", "integer", "That both are compared over"},
    {"asItIs", "Forecast", ""}, {"changed", "Forecast", ""},
    {"jobs", "[WhatIfJob]", "Who waits, in the order of the line; the first 1000"},
    {"leftOut", "integer", "Wait, and were too many to be simulated"},
    {"assumptions", "[text]", "What has to be so for this to come true"},
    {"policies", "[text]", "That there are"}, {"policy", "text", "That is in force"}};
constexpr FieldRow kScaleRequest[] = {
    {"least", "integer(0..128)-", "0: none while nobody asks for anything"}, {"most", "integer(0..128)-", ""},
    {"in_flight", "integer(0..4294967295)-", "Requests that one replica works on at a time; 0: they do not decide"},
    {"latency_ms", "integer(0..4294967295)-", "Until an answer begins, on average; 0: that does not decide"},
    {"gpu_use", "integer(0..100)-", "Percent of its share that a replica uses, on average; 0: that does not decide"},
    {"calm", "seconds-", "So long fewer would do, before there are fewer"},
    {"idle", "seconds-", "So long without a request, before there is none"}};
constexpr FieldRow kServiceChange[] = {
    {"port", "integer(1024..65535)-", "Where it is reached"},
    {"ready", "text-", "A path that answers in a replica that may be asked"},
    {"ready_within", "seconds-", "From when a replica runs"},
    {"drain", "seconds-", "For requests in flight of a replica that is to end"},
    {"wait", "seconds-", "Of a request while there is no replica"},
    {"replicas", "ScaleRequest?-", ""}};
constexpr FieldRow kServiceRequest[] = {
    {"name", "name", ""}, {"port", "integer(1024..65535)", "Where it is reached"},
    {"job", "JobSpec", "What each replica is; it finds its port in PORT"},
    {"ready", "text-", "A path that answers in a replica that may be asked"},
    {"ready_within", "seconds-", "From when a replica runs"},
    {"drain", "seconds-", "For requests in flight of a replica that is to end"},
    {"wait", "seconds-", "Of a request while there is no replica"},
    {"replicas", "ScaleRequest?-", ""}};
constexpr FieldRow kVersionRequest[] = {
    {"job", "JobSpec", ""}, {"weight", "integer(1..100)?-", "Percent of the requests; below 100 until it is promoted"}};
constexpr FieldRow kPromotionRequest[] = {{"weight", "integer(1..100)?-", "Percent of the requests"}};
constexpr FieldRow kRollbackRequest[] = {{"to", "count?-", "The number of a version"}};
constexpr FieldRow kServiceScale[] = {
    {"least", "integer", ""}, {"most", "integer", ""}, {"inFlight", "integer", "For each replica; 0: it does not decide"},
    {"latencyMs", "integer", "Likewise"}, {"gpuUsePercent", "integer", "Likewise"},
    {"calmSeconds", "integer", ""}, {"idleSeconds", "integer", ""}};
constexpr FieldRow kServiceCandidate[] = {
    {"version", "integer", ""}, {"weight", "integer", "Percent of the requests"}};
constexpr FieldRow kServiceVersion[] = {
    {"number", "integer", ""}, {"state", "<stable,candidate,rejected,replaced>", ""},
    {"madeUnixMilliseconds", "integer", ""}, {"failures", "integer", "In a row"},
    {"rejected", "text", "Why it was taken back"}, {"replicas", "integer", ""},
    {"readyReplicas", "integer", ""}, {"spec", "JobSpec-", "For its owner and admins"}};
constexpr FieldRow kServiceReplica[] = {
    {"job", "id", ""}, {"version", "integer", ""},
    {"state", "<waiting,starting,ready,draining,stopping>", ""},
    {"port", "integer", ""}, {"weight", "integer", "Of 256"}, {"inFlight", "integer", ""},
    {"requests", "integer", "Since the proxy has known it"}, {"errors", "integer", "5xx and none at all"}};
constexpr FieldRow kServiceStep[] = {{"unixMilliseconds", "integer", ""}, {"text", "text", ""}};
constexpr FieldRow kService[] = {
    {"apiVersion", "text-", ""}, {"kind", "text-", ""}, {"name", "text", ""}, {"owner", "text", ""},
    {"state", "<ready,starting,updating,asleep,deleting>", ""}, {"trouble", "text", "What somebody has to do something about"},
    {"address", "text", "Of the machine, where it listens"}, {"port", "integer", ""},
    {"madeUnixMilliseconds", "integer", ""}, {"ready", "text", ""}, {"readyWithinSeconds", "integer", ""},
    {"drainSeconds", "integer", ""}, {"waitSeconds", "integer", ""}, {"scale", "ServiceScale", ""},
    {"desiredReplicas", "integer", ""}, {"readyReplicas", "integer", ""}, {"inFlight", "integer", ""},
    {"stable", "integer", "A version"}, {"candidate", "ServiceCandidate?", ""},
    {"versions", "[ServiceVersion]", "Oldest first"}, {"replicas", "[ServiceReplica]", ""},
    {"history", "[ServiceStep]-", "For its owner and admins"}};
constexpr FieldRow kServiceList[] = {
    {"apiVersion", "text", ""}, {"kind", "text", ""}, {"items", "[Service]", ""}};
constexpr FieldRow kSecretRequest[] = {{"value", "text", "Up to 16 KiB"}};
constexpr FieldRow kSecret[] = {
    {"apiVersion", "text-", ""}, {"kind", "text-", ""}, {"name", "text", ""},
    {"changedUnixMilliseconds", "integer", ""}};
constexpr FieldRow kSecretList[] = {
    {"apiVersion", "text", ""}, {"kind", "text", ""}, {"items", "[Secret]", ""}};
constexpr FieldRow kScheduleChange[] = {
    {"every", "text-", "Five fields as in crontab, or @daily and the like; in the time of the machine"},
    {"missed", "<skip,once>-", "Runs whose time came while no daemon ran"},
    {"overlap", "<skip,allow>-", "While the job of the last run has not ended"}, {"suspended", "boolean-", ""}};
constexpr FieldRow kScheduleRequest[] = {
    {"name", "name", ""},
    {"every", "text", "Five fields as in crontab, or @daily and the like; in the time of the machine"},
    {"missed", "<skip,once>-", "Runs whose time came while no daemon ran"},
    {"overlap", "<skip,allow>-", "While the job of the last run has not ended"}, {"job", "JobSpec", ""}};
constexpr FieldRow kSchedule[] = {
    {"apiVersion", "text-", ""}, {"kind", "text-", ""}, {"name", "text", ""}, {"owner", "text", ""},
    {"every", "text", ""}, {"missed", "<skip,once>", ""}, {"overlap", "<skip,allow>", ""}, {"suspended", "boolean", ""},
    {"trouble", "text", "Of the last time"}, {"madeUnixMilliseconds", "integer", ""},
    {"nextUnixMilliseconds", "integer?", ""}, {"lastUnixMilliseconds", "integer?", ""},
    {"lastJob", "id?", ""}, {"spec", "JobSpec", ""}};
constexpr FieldRow kScheduleList[] = {
    {"apiVersion", "text", ""}, {"kind", "text", ""}, {"items", "[Schedule]", ""}};
constexpr FieldRow kBackupRequest[] = {{"to", "text", "A file on the machine, by its whole path"}};
constexpr FieldRow kBackup[] = {
    {"apiVersion", "text", ""}, {"kind", "text", ""}, {"to", "text", ""}};

constexpr FieldRow kGrantRequest[] = {
    {"gpu", "text?-", "\"0.3\", \"2\"; may be left out where memory is named"},
    {"memory", "text?-", "\"10GiB\""}, {"cap", "boolean?-", ""},
    {"class", "<batch,latency>?-", ""}, {"mode", "<timeslice,mps>?-", "Default: as the machine is set up"},
    {"devices", "[text]?-", ""}, {"models", "[text]?-", "Only GPUs of these"},
    {"name", "name?-", ""}, {"command", "text?-", "For lists"},
    {"queue", "text?-", "In which it counts and waits; default: default"},
    {"wait", "boolean?-", "In line, until it fits"},
    {"timeoutSeconds", "count?-", "504 when it does not fit by then"}};
constexpr FieldRow kChangeRequest[] = {
    {"gpu", "text?-", ""}, {"memory", "text?-", ""}, {"cap", "boolean?-", ""},
    {"class", "<batch,latency>?-", ""}};
constexpr FieldRow kCordonRequest[] = {
    {"reason", "text-", ""}, {"deadlineSeconds", "count-", "Of a drain: then the present work is ended"}};

constexpr SchemaRow kSchemas[] = {
    {"Problem", "What went wrong (RFC 9457)", kProblem},
    {"Mount", "", kMount, true}, {"Port", "", kPort, true}, {"Container", "", kContainer, true}, {"Ulimit", "", kUlimit, true},
    {"Limits", "", kLimits, true}, {"Array", "", kArray, true}, {"Dependency", "", kDependency, true},
    {"Retry", "", kRetry, true}, {"Notify", "", kNotify, true}, {"Near", "", kNear, true}, {"Spread", "", kSpread, true}, {"Where", "", kWhere, true},
    {"JobSpec", "What is submitted; the job file has the same fields", kJobSpec, true},
    {"JobChange", "What can be changed after the submit", kJobChange, true},
    {"Step", "", kStep}, {"Slice", "", kSlice}, {"End", "", kEnd}, {"Accounting", "", kAccounting}, {"Member", "", kMember},
    {"Wait", "Why it waits", kWait}, {"Job", "", kJob}, {"JobList", "", kJobList},
    {"Explanation", "", kExplanation}, {"Attempt", "", kAttempt}, {"AttemptList", "", kAttemptList},
    {"Place", "", kPlace}, {"MemberList", "", kMemberList},
    {"ChannelRequest", "", kChannelRequest, true}, {"Channel", "", kChannel},
    {"PruneRequest", "", kPruneRequest, true},
    {"PruneResult", "", kPruneResult}, {"PersonRequest", "", kPersonRequest, true}, {"Person", "", kPerson},
    {"PersonList", "", kPersonList}, {"TokenRequest", "", kTokenRequest, true}, {"Token", "", kToken},
    {"TokenList", "", kTokenList}, {"Session", "", kSession},
    {"SignInOffer", "", kSignInOffer}, {"BrowserSignIn", "", kBrowserSignIn}, {"DeviceSignIn", "", kDeviceSignIn},
    {"DeviceSignInQuestion", "", kDeviceSignInQuestion, true}, {"DeviceSignInState", "", kDeviceSignInState},
    {"AuditEntry", "", kAuditEntry}, {"AuditLog", "", kAuditLog}, {"Setting", "", kSetting}, {"SettingList", "", kSettingList}, {"Use", "", kUse}, {"UseList", "", kUseList}, {"QueueRequest", "", kQueueRequest, true},
    {"QuotaRequest", "", kQuotaRequest, true}, {"Quota", "", kQuota}, {"Queue", "", kQueue},
    {"QueueList", "", kQueueList}, {"UserQuota", "", kUserQuota}, {"QuotaList", "", kQuotaList},
    {"Removed", "", kRemoved}, {"Usage", "", kUsage}, {"UsageReport", "", kUsageReport},
    {"GrantRequest", "", kGrantRequest, true}, {"ChangeRequest", "", kChangeRequest, true},
    {"CordonRequest", "", kCordonRequest, true}, {"WhatIfNodes", "", kWhatIfNodes, true},
    {"WhatIfRequest", "", kWhatIfRequest, true}, {"ForecastWaits", "", kForecastWaits}, {"ForecastQueue", "", kForecastQueue},
    {"Forecast", "", kForecast}, {"WhatIfJob", "", kWhatIfJob}, {"WhatIf", "", kWhatIf},
    {"ScaleRequest", "", kScaleRequest, true}, {"ServiceChange", "", kServiceChange, true},
    {"ServiceRequest", "", kServiceRequest, true}, {"VersionRequest", "", kVersionRequest, true},
    {"PromotionRequest", "", kPromotionRequest, true}, {"RollbackRequest", "", kRollbackRequest, true},
    {"ServiceScale", "", kServiceScale}, {"ServiceCandidate", "", kServiceCandidate},
    {"ServiceVersion", "", kServiceVersion}, {"ServiceReplica", "", kServiceReplica},
    {"ServiceStep", "", kServiceStep}, {"Service", "", kService}, {"ServiceList", "", kServiceList},
    {"SecretRequest", "", kSecretRequest, true}, {"Secret", "", kSecret}, {"SecretList", "", kSecretList},
    {"ScheduleChange", "", kScheduleChange, true}, {"ScheduleRequest", "", kScheduleRequest, true},
    {"Schedule", "", kSchedule}, {"ScheduleList", "", kScheduleList},
    {"BackupRequest", "", kBackupRequest, true}, {"Backup", "", kBackup}};
// clang-format on

}  // namespace

std::span<const SchemaRow> openapi_schemas() { return kSchemas; }

}  // namespace divvy::api
