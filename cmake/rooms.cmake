# The one table of rooms and what each may include (docs/architecture.md says why).
#
# divvy_module() refuses an edge that is not listed here, and the test `layering.includes` refuses
# an #include of a room that is not listed here. Whoever may use `model` may use `base`.
set(DIVVY_ROOMS)

macro(divvy_room name)
  list(APPEND DIVVY_ROOMS ${name})
  set(DIVVY_MAY_USE_${name} ${ARGN})
endmacro()

#          room      may use
divvy_room(base)
divvy_room(abi)
divvy_room(wire)
divvy_room(model     base)
divvy_room(config    model base)
divvy_room(place     model base)
divvy_room(sim       jobs place model base)
divvy_room(shim      wire abi)
divvy_room(simgpu    abi)
divvy_room(nvml      model base abi)
divvy_room(sys       base)
divvy_room(ledger    sys model base)
divvy_room(share     ledger nvml wire sys model base)
divvy_room(health    nvml sys model base abi)
divvy_room(inject    sys model base)
divvy_room(run       sys model base)
divvy_room(agent     ledger share health inject run nvml sys model base)
divvy_room(jobs      place model base)
divvy_room(store     model base)
divvy_room(control   jobs place store agent model base)
divvy_room(net       base)
divvy_room(api       net control agent health ledger share sim jobs place store sys model base)
divvy_room(console   net base)
divvy_room(cli       net config sim place sys model base)
divvy_room(kube      control agent jobs net model base)
divvy_room(kubelet   kube agent inject sys model base)
divvy_room(gpuload   abi base)
