#include "gpuload/kernels.h"

namespace divvy::gpuload {

// `spin` counts iterations and not nanoseconds: a loop that watches a clock would go on "working"
// while the GPU runs somebody else's kernel. Its first warp works and the others wait at the
// barrier, so that the block keeps all its threads resident without competing with itself for the
// issue slots. The store that practically never happens keeps the compiler from removing the loop.
const char* const kKernelText = R"ptx(
.version 7.0
.target sm_70
.address_size 64

//@simgpu spin ns=param0/2
//@simgpu stream_copy ns=0 bytes=param2*32 copy=param0,param1,param2*16
//@simgpu fill32 ns=0 bytes=param1*4 fill32=param0,param1,param2
//@simgpu empty ns=0

.visible .entry spin(.param .u64 spin_iterations, .param .u64 spin_sink)
{
  .reg .pred %idle, %more, %store;
  .reg .u32 %thread, %state;
  .reg .u64 %left, %sink;

  ld.param.u64 %left, [spin_iterations];
  ld.param.u64 %sink, [spin_sink];
  cvta.to.global.u64 %sink, %sink;
  mov.u32 %thread, %tid.x;
  mov.u32 %state, %tid.x;
  setp.ge.u32 %idle, %thread, 32;
  @%idle bra WAIT;
  setp.eq.u64 %idle, %left, 0;
  @%idle bra WAIT;
WORK:
  mad.lo.u32 %state, %state, 1664525, 1013904223;
  xor.b32 %state, %state, 2654435769;
  mad.lo.u32 %state, %state, 22695477, 1;
  sub.u64 %left, %left, 1;
  setp.ne.u64 %more, %left, 0;
  @%more bra WORK;
WAIT:
  bar.sync 0;
  setp.eq.u32 %store, %state, 305419896;
  @%store st.global.u32 [%sink], %state;
  ret;
}

.visible .entry stream_copy(.param .u64 copy_to, .param .u64 copy_from, .param .u64 copy_count)
{
  .reg .pred %done;
  .reg .u32 %block, %threads, %thread, %blocks, %a, %b, %c, %d;
  .reg .u64 %to, %from, %count, %index, %step, %offset, %source, %target;

  ld.param.u64 %to, [copy_to];
  ld.param.u64 %from, [copy_from];
  ld.param.u64 %count, [copy_count];
  cvta.to.global.u64 %to, %to;
  cvta.to.global.u64 %from, %from;
  mov.u32 %block, %ctaid.x;
  mov.u32 %threads, %ntid.x;
  mov.u32 %thread, %tid.x;
  mov.u32 %blocks, %nctaid.x;
  mul.wide.u32 %index, %block, %threads;
  cvt.u64.u32 %offset, %thread;
  add.u64 %index, %index, %offset;
  mul.wide.u32 %step, %blocks, %threads;
NEXT:
  setp.ge.u64 %done, %index, %count;
  @%done bra END;
  shl.b64 %offset, %index, 4;
  add.u64 %source, %from, %offset;
  add.u64 %target, %to, %offset;
  ld.global.v4.u32 {%a, %b, %c, %d}, [%source];
  st.global.v4.u32 [%target], {%a, %b, %c, %d};
  add.u64 %index, %index, %step;
  bra NEXT;
END:
  ret;
}
)ptx"
#include "abi/fill32_ptx.inc"
                                R"ptx(
.visible .entry empty()
{
  ret;
}
)ptx";

}  // namespace divvy::gpuload
