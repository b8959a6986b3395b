# Graphs and stream capture of the simulated libcuda.so.1.
set(SIMGPU_GRAPH_SOURCES
  capture.cc
  capture_api.cc
  graph.cc
  graph_content.cc
  graph_exec.cc
  graph_exec_params.cc
  graph_lower.cc
  graph_memory.cc
  graph_nodes.cc
  graph_params.cc
  graph_structure.cc
  graph_update.cc)
set(SIMGPU_GRAPH_TESTS
  cuda_capture_test.cc
  cuda_graph_test.cc)
