# LibTorch: LEEWAY_TORCH (a CMake prefix) wins, then the wheel in .venv.
set(LEEWAY_TORCH "$ENV{LEEWAY_TORCH}" CACHE PATH "CMake prefix of another LibTorch")
if(LEEWAY_TORCH)
  list(PREPEND CMAKE_PREFIX_PATH "${LEEWAY_TORCH}")
else()
  file(GLOB wheel "${CMAKE_SOURCE_DIR}/.venv/lib/python3*/site-packages/torch/share/cmake")
  list(PREPEND CMAKE_PREFIX_PATH ${wheel})
endif()
find_package(Torch REQUIRED)
find_package(Threads REQUIRED)

# Own CUDA kernels, if this LibTorch has CUDA. They are plain CUDA C++ without LibTorch's headers,
# for the architectures in use, and as PTX for those to come. Products and sums are not contracted,
# as on the CPU: so both give the same bits.
add_library(leeway_cuda_library INTERFACE)
set(LEEWAY_CUDA OFF)
if(TARGET torch_cuda)
  set(LEEWAY_CUDA ON)
  set(CMAKE_CUDA_STANDARD 20)
  set(CMAKE_CUDA_ARCHITECTURES 80-real 90-real 90-virtual)
  string(APPEND CMAKE_CUDA_FLAGS " -fmad=false --expt-relaxed-constexpr")
  set(CMAKE_CUDA_FLAGS_RELEASE "-O3")
  set(CMAKE_CUDA_RUNTIME_LIBRARY Shared)  # LibTorch's: one runtime in a process
  enable_language(CUDA)
  if(NOT CMAKE_CUDA20_STANDARD_COMPILE_OPTION)  # CMake 3.25 does not know that nvcc has C++20
    set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION "-std=c++20")
    set(CMAKE_CUDA20_EXTENSION_COMPILE_OPTION "-std=c++20")
  endif()
  find_package(CUDAToolkit REQUIRED)
  target_link_libraries(leeway_cuda_library INTERFACE CUDA::cudart)
  target_compile_definitions(leeway_cuda_library INTERFACE LEEWAY_CUDA=1)
  # One library of that name serves LibTorch and us, so the toolkit should be as new as LibTorch's.
  # Without one, a product and its residual are two passes.
  if(TARGET CUDA::cublasLt)
    target_link_libraries(leeway_cuda_library INTERFACE CUDA::cublasLt)
    target_compile_definitions(leeway_cuda_library INTERFACE LEEWAY_CUBLASLT=1)
  endif()
endif()

# Header-only libraries: Debian's, or those collected by tools/carry.
function(leeway_header header variable)
  find_path(${variable} ${header} PATHS ${LEEWAY_CARRY}/include)
  if(NOT ${variable})
    message(FATAL_ERROR
            "${header} not found: run tools/setup, or tools/carry on a machine that has it")
  endif()
endfunction()
leeway_header(toml++/toml.h LEEWAY_TOML_INCLUDE)
leeway_header(CLI/CLI.hpp LEEWAY_CLI11_INCLUDE)
leeway_header(nlohmann/json.hpp LEEWAY_JSON_INCLUDE)
leeway_header(xxhash.h LEEWAY_XXHASH_INCLUDE)
# LibTorch's own {fmt} where it ships one: its headers would come first anyway.
find_path(LEEWAY_FMT_INCLUDE fmt/format-inl.h PATHS ${TORCH_INCLUDE_DIRS} NO_DEFAULT_PATH)
leeway_header(fmt/format.h LEEWAY_FMT_INCLUDE)

add_library(leeway_headers INTERFACE)
# {fmt} first: the folder of another library may have an older one.
set(header_folders ${LEEWAY_FMT_INCLUDE} ${LEEWAY_TOML_INCLUDE} ${LEEWAY_CLI11_INCLUDE}
    ${LEEWAY_JSON_INCLUDE} ${LEEWAY_XXHASH_INCLUDE})
list(REMOVE_DUPLICATES header_folders)
list(REMOVE_ITEM header_folders /usr/include)
target_include_directories(leeway_headers SYSTEM INTERFACE ${header_folders})
add_library(leeway_fmt STATIC ${CMAKE_SOURCE_DIR}/cmake/fmt.cpp)
target_include_directories(leeway_fmt SYSTEM PRIVATE ${LEEWAY_FMT_INCLUDE})
target_link_libraries(leeway_headers INTERFACE leeway_fmt)

# Optional libraries for reading text. A missing one is an error here, not at run time.
add_library(leeway_text_libraries INTERFACE)
target_link_libraries(leeway_text_libraries INTERFACE Threads::Threads)
function(leeway_text_library option header library)
  if(NOT ${option})
    return()
  endif()
  find_path(${option}_INCLUDE ${header})
  find_library(${option}_LIBRARY ${library})
  if(NOT ${option}_INCLUDE OR NOT ${option}_LIBRARY)
    message(FATAL_ERROR "${library} not found: run tools/setup, or configure with -D${option}=OFF")
  endif()
  target_link_libraries(leeway_text_libraries INTERFACE ${${option}_LIBRARY})
  target_compile_definitions(leeway_text_libraries INTERFACE ${option}=1)
endfunction()
leeway_text_library(LEEWAY_PCRE2 pcre2.h pcre2-8)
leeway_text_library(LEEWAY_SENTENCEPIECE sentencepiece_processor.h sentencepiece)
leeway_text_library(LEEWAY_ZSTD zstd.h zstd)
leeway_text_library(LEEWAY_ZLIB zlib.h z)

# Chart.js is embedded in the program unchanged.
if(LEEWAY_CHARTS)
  find_file(LEEWAY_CHARTS_FILE chart.min.js PATHS /usr/share/javascript/chart.js
            ${LEEWAY_CARRY}/share NO_DEFAULT_PATH)
  if(NOT LEEWAY_CHARTS_FILE)
    message(FATAL_ERROR "chart.min.js not found: run tools/setup, or tools/carry on a machine that "
            "has it, or configure with -DLEEWAY_CHARTS=OFF (reports then have tables only)")
  endif()
else()
  set(LEEWAY_CHARTS_FILE "")
endif()

# For src/dashboard/dashboard.cpp. Debian's httplib is compiled, and the layout of its structures
# depends on the definitions it was compiled with.
set(LEEWAY_HTTP_DEFINITIONS "")
add_library(leeway_http_library INTERFACE)
target_link_libraries(leeway_http_library INTERFACE Threads::Threads)
if(LEEWAY_HTTP)
  find_path(LEEWAY_HTTP_INCLUDE httplib.h)
  find_library(LEEWAY_HTTP_LIBRARY cpp-httplib)
  if(NOT LEEWAY_HTTP_INCLUDE OR NOT LEEWAY_HTTP_LIBRARY)
    message(FATAL_ERROR "cpp-httplib not found: run tools/setup, or configure with "
            "-DLEEWAY_HTTP=OFF")
  endif()
  target_link_libraries(leeway_http_library INTERFACE ${LEEWAY_HTTP_LIBRARY})
  set(LEEWAY_HTTP_DEFINITIONS LEEWAY_HTTP=1 CPPHTTPLIB_OPENSSL_SUPPORT CPPHTTPLIB_ZLIB_SUPPORT
      CPPHTTPLIB_BROTLI_SUPPORT)
endif()

# Many processes over TCP. A build without it refuses the commands that need it.
add_library(leeway_zmq_library INTERFACE)
if(LEEWAY_ZMQ)
  find_path(LEEWAY_ZMQ_INCLUDE zmq.hpp)
  find_library(LEEWAY_ZMQ_LIBRARY zmq)
  if(NOT LEEWAY_ZMQ_INCLUDE OR NOT LEEWAY_ZMQ_LIBRARY)
    message(FATAL_ERROR "libzmq or cppzmq not found: run tools/setup, or configure with "
            "-DLEEWAY_ZMQ=OFF")
  endif()
  target_link_libraries(leeway_zmq_library INTERFACE ${LEEWAY_ZMQ_LIBRARY})
  target_compile_definitions(leeway_zmq_library INTERFACE LEEWAY_ZMQ=1)
endif()

# For src/drivers/mpi/library.cpp: MPI's C functions. MPI_HOME names an MPI outside the usual
# places, as the modules of clusters set it.
add_library(leeway_mpi_library INTERFACE)
target_link_libraries(leeway_mpi_library INTERFACE Threads::Threads)
if(LEEWAY_MPI)
  find_path(LEEWAY_MPI_INCLUDE mpi.h HINTS ENV MPI_HOME PATH_SUFFIXES include mpi)
  find_library(LEEWAY_MPI_LIBRARY mpi HINTS ENV MPI_HOME PATH_SUFFIXES lib)
  if(NOT LEEWAY_MPI_INCLUDE OR NOT LEEWAY_MPI_LIBRARY)
    message(FATAL_ERROR "mpi not found: run tools/setup, or configure with -DLEEWAY_MPI=OFF")
  endif()
  target_include_directories(leeway_mpi_library SYSTEM INTERFACE ${LEEWAY_MPI_INCLUDE})
  target_link_libraries(leeway_mpi_library INTERFACE ${LEEWAY_MPI_LIBRARY})
  target_compile_definitions(leeway_mpi_library INTERFACE LEEWAY_MPI=1 OMPI_SKIP_MPICXX=1)
endif()
