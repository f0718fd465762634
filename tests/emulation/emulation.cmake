# The kernels of GPUs on the CPU: every src/kernels/*.cu and its glue, compiled by the C++ compiler
# with stand-ins for CUDA's headers, and the tests of tests/gpu/kernels linked with them. Included
# where src/kernels gets its flags, which belong to a folder of CMake's.
include(${CMAKE_SOURCE_DIR}/cmake/googletest.cmake)
file(GLOB sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/src/kernels/*.cpp)
leeway_bundle(sources kernels_emulated ${sources})
file(GLOB kernels CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/src/kernels/*.cu)
set(emulated ${CMAKE_SOURCE_DIR}/tests/emulation/emulation_test.cpp)
foreach(path ${kernels})
  get_filename_component(name ${path} NAME)
  set(wrapper ${CMAKE_BINARY_DIR}/bundles/${name}.cpp)
  file(CONFIGURE OUTPUT ${wrapper} CONTENT "#include \"kernels/${name}\"\n")
  list(APPEND emulated ${wrapper})
endforeach()
# As nvcc compiles them: without contraction. And what only a GPU would stumble over is found: a
# vector at an odd address, an index beyond an array in shared memory.
set_source_files_properties(${emulated} PROPERTIES SKIP_PRECOMPILE_HEADERS ON COMPILE_OPTIONS
  "-ffp-contract=off;-fsanitize=undefined;-fno-sanitize-recover=all;-Wno-unknown-pragmas")

add_executable(emulation_kernels ${sources} ${emulated} tests/emulation/grid.cpp
               tests/emulation/device.cpp)
leeway_compile_options(emulation_kernels TORCH)
target_include_directories(emulation_kernels BEFORE PRIVATE tests/emulation/include)
target_compile_definitions(emulation_kernels PRIVATE LEEWAY_CUDA=1)
target_link_options(emulation_kernels PRIVATE -fsanitize=undefined)
# These two as files: as libraries they would bring the real kernels along.
add_dependencies(emulation_kernels leeway_averaging leeway_optim)
target_link_libraries(emulation_kernels PRIVATE kernel_tests $<TARGET_FILE:leeway_averaging>
                      $<TARGET_FILE:leeway_optim> leeway_base GTest::gtest GTest::gtest_main)
set_target_properties(emulation_kernels PROPERTIES
                      RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
add_test(NAME emulation_kernels COMMAND emulation_kernels --gtest_brief=1)
# One thread: on a busy machine those of OpenMP would mostly wait for each other. The label is one
# that `make asan` leaves out: sanitizers of memory do not know fibers.
set_tests_properties(emulation_kernels PROPERTIES LABELS emulation TIMEOUT 900
  WORKING_DIRECTORY ${CMAKE_SOURCE_DIR} ENVIRONMENT OMP_NUM_THREADS=1)
