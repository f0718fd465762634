# All our targets are compiled the same way, so that they can share one precompiled header.
set(LEEWAY_SANITIZE_FLAGS "")
if(LEEWAY_SANITIZE)
  set(LEEWAY_SANITIZE_FLAGS -fsanitize=${LEEWAY_SANITIZE} -fno-omit-frame-pointer -g)
  add_link_options(-fsanitize=${LEEWAY_SANITIZE})
endif()

# Warnings are errors only where CI asks for it: another compiler may have new ones.
set(LEEWAY_WARNINGS -Wall -Wextra -Wshadow -Wconversion)
# g++ 12 and 13 report overflows that do not exist once functions of std::string are inlined.
if(CMAKE_CXX_COMPILER_ID STREQUAL GNU)
  list(APPEND LEEWAY_WARNINGS -Wno-array-bounds -Wno-stringop-overflow -Wno-stringop-overread
       -Wno-restrict)
endif()
if(LEEWAY_WERROR)
  list(APPEND LEEWAY_WARNINGS -Werror)
endif()

# at::parallel_for is compiled into our code; -fopenmp without a path makes it share LibTorch's
# OpenMP runtime (same soname, found first through the run path).
add_library(leeway_torch INTERFACE)
target_link_libraries(leeway_torch INTERFACE torch)
target_compile_options(leeway_torch INTERFACE $<$<COMPILE_LANGUAGE:CXX>:-fopenmp>)
target_link_options(leeway_torch INTERFACE -fopenmp)

# leeway_compile_options(target [TORCH] [OWN_HEADER])
# OWN_HEADER: the target that makes the precompiled header does not reuse it.
function(leeway_compile_options target)
  cmake_parse_arguments(arg "TORCH;OWN_HEADER" "" "" ${ARGN})
  target_include_directories(${target} PRIVATE ${CMAKE_SOURCE_DIR}/src)
  target_compile_options(${target} PRIVATE
    "$<$<COMPILE_LANGUAGE:CXX>:${LEEWAY_WARNINGS};${LEEWAY_SANITIZE_FLAGS}>")
  target_compile_definitions(${target} PRIVATE LEEWAY_VERSION="${PROJECT_VERSION}")
  target_link_libraries(${target} PRIVATE leeway_headers)
  set(header leeway_plain_header)
  if(arg_TORCH)
    target_link_libraries(${target} PRIVATE leeway_torch)
    set(header leeway_torch_header)
  endif()
  if(NOT arg_OWN_HEADER)
    target_precompile_headers(${target} REUSE_FROM ${header})
  endif()
endfunction()

# The large headers are compiled once for all targets: with ATen (20 s) and without. A header also
# costs where it is not used: json half a second in each file, and CLI11, whose functions are not
# templates, six. So these two are left out.
set(plain_headers <algorithm> <array> <cstdint> <functional> <map> <memory> <optional> <string>
    <string_view> <utility> <vector> <fmt/format.h>)
file(CONFIGURE OUTPUT ${CMAKE_BINARY_DIR}/header.cpp CONTENT "")  # written only once
add_library(leeway_plain_header STATIC ${CMAKE_BINARY_DIR}/header.cpp)
leeway_compile_options(leeway_plain_header OWN_HEADER)
target_precompile_headers(leeway_plain_header PRIVATE ${plain_headers})
add_library(leeway_torch_header STATIC ${CMAKE_BINARY_DIR}/header.cpp)
leeway_compile_options(leeway_torch_header TORCH OWN_HEADER)
target_precompile_headers(leeway_torch_header PRIVATE ${plain_headers} <ATen/ATen.h>
                          <ATen/Parallel.h>)

# leeway_bundle(variable name sources...): six files at a time as one, so that they share their
# instantiations of json, CLI11 and ATen: a full build takes a third of the time, and a changed file
# still compiles in under 30 s. CMake's own unity build names absolute paths, so that two checkouts
# would not share ccache's results. Files with flags of their own stay alone.
function(leeway_bundle variable name)
  set(result "")
  set(number 0)
  set(count 0)
  set(content "")
  foreach(source ${ARGN})
    get_source_file_property(options ${source} COMPILE_OPTIONS)
    get_source_file_property(definitions ${source} COMPILE_DEFINITIONS)
    if(options OR definitions)
      list(APPEND result ${source})
      continue()
    endif()
    file(RELATIVE_PATH path ${CMAKE_SOURCE_DIR}/src ${source})
    string(APPEND content "#include \"${path}\"\n")
    math(EXPR count "${count} + 1")
    if(count EQUAL 6)
      list(APPEND result ${CMAKE_BINARY_DIR}/bundles/${name}_${number}.cpp)
      file(CONFIGURE OUTPUT ${CMAKE_BINARY_DIR}/bundles/${name}_${number}.cpp CONTENT "${content}")
      math(EXPR number "${number} + 1")
      set(count 0)
      set(content "")
    endif()
  endforeach()
  if(count GREATER 0)
    list(APPEND result ${CMAKE_BINARY_DIR}/bundles/${name}_${number}.cpp)
    file(CONFIGURE OUTPUT ${CMAKE_BINARY_DIR}/bundles/${name}_${number}.cpp CONTENT "${content}")
  endif()
  set(${variable} ${result} PARENT_SCOPE)
endfunction()

# leeway_library(folder [TORCH] [LIBRARIES folders...] [EXTERNAL targets...]): src/<folder>/*.cpp,
# and *.cu where there is CUDA.
function(leeway_library folder)
  cmake_parse_arguments(arg "TORCH" "" "LIBRARIES;EXTERNAL" ${ARGN})
  string(REPLACE "/" "_" name ${folder})
  file(GLOB sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/src/${folder}/*.cpp)
  if(LEEWAY_BUNDLES)
    leeway_bundle(sources ${name} ${sources})
  endif()
  if(LEEWAY_CUDA)
    file(GLOB cuda_sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/src/${folder}/*.cu)
    list(APPEND sources ${cuda_sources})
  endif()
  add_library(leeway_${name} STATIC ${sources})
  if(arg_TORCH)
    leeway_compile_options(leeway_${name} TORCH)
  else()
    leeway_compile_options(leeway_${name})
  endif()
  foreach(library ${arg_LIBRARIES})
    string(REPLACE "/" "_" library_name ${library})
    target_link_libraries(leeway_${name} PUBLIC leeway_${library_name})
  endforeach()
  if(arg_EXTERNAL)
    target_link_libraries(leeway_${name} PUBLIC ${arg_EXTERNAL})
  endif()
endfunction()

# leeway_embed(target name=file...): embeds files in the program as strings, anew when one changes.
function(leeway_embed target)
  set(out ${CMAKE_BINARY_DIR}/${target}_files.cpp)
  set(pairs "")
  set(files "")
  foreach(pair ${ARGN})
    string(REGEX MATCH "^([^=]+)=(.*)$" whole ${pair})
    set(name ${CMAKE_MATCH_1})
    set(path "")
    if(CMAKE_MATCH_2)
      get_filename_component(path ${CMAKE_MATCH_2} ABSOLUTE BASE_DIR ${CMAKE_SOURCE_DIR})
      list(APPEND files ${path})
    endif()
    list(APPEND pairs ${name}=${path})
  endforeach()
  string(REPLACE ";" "," pairs "${pairs}")
  add_custom_command(OUTPUT ${out} VERBATIM
    COMMAND ${CMAKE_COMMAND} -DOUT=${out} "-DFILES=${pairs}"
            -P ${CMAKE_SOURCE_DIR}/cmake/embed.cmake
    DEPENDS ${files} ${CMAKE_SOURCE_DIR}/cmake/embed.cmake)
  target_sources(${target} PRIVATE ${out})
endfunction()
