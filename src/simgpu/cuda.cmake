# libcuda.so.1 of the simulation. Its objects are a library of their own, so that tests can link
# them directly as well.
include(${CMAKE_CURRENT_SOURCE_DIR}/cuda_memory_sources.cmake)
include(${CMAKE_CURRENT_SOURCE_DIR}/cuda_graph_sources.cmake)

add_library(divvy_simcuda OBJECT
  cuda_context.cc
  cuda_copy.cc
  cuda_device.cc
  cuda_error.cc
  cuda_event.cc
  cuda_launch.cc
  cuda_memop.cc
  cuda_module.cc
  cuda_resolver.cc
  cuda_stream.cc
  cuda_unsimulated.cc
  driver.cc
  engine.cc
  module.cc
  work.cc
  ${SIMGPU_MEMORY_SOURCES}
  ${SIMGPU_GRAPH_SOURCES})
target_link_libraries(divvy_simcuda PUBLIC divvy_simgpu)

add_library(simgpu_cuda SHARED $<TARGET_OBJECTS:divvy_simcuda>)
target_link_libraries(simgpu_cuda PRIVATE divvy_simgpu Threads::Threads)
set_target_properties(simgpu_cuda PROPERTIES
  OUTPUT_NAME cuda SOVERSION 1
  LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/${DIVVY_SIMGPU_DIR})
# The engine's thread outlives a dlclose, so the code has to stay.
# Like the real driver it calls its own functions, also behind a preloaded library that has the
# same names.
target_link_options(simgpu_cuda PRIVATE -Wl,-z,nodelete -Wl,-Bsymbolic
  -Wl,--version-script=${CMAKE_CURRENT_SOURCE_DIR}/cuda.map)
if(NOT DIVVY_SANITIZE)
  target_link_options(simgpu_cuda PRIVATE -Wl,--no-undefined)
endif()

divvy_test(divvy_simcuda_test
  SOURCES cuda_core_test.cc ${SIMGPU_MEMORY_TESTS} ${SIMGPU_GRAPH_TESTS} LINK divvy_simcuda)
# Its tests start processes of their own, so no driver may live in the test program itself.
divvy_test(divvy_simcuda_timeline_test SOURCES cuda_timeline_test.cc LINK divvy_simcuda)
