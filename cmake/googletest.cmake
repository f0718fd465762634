# GoogleTest: the system's, or the sources collected by tools/carry.
find_package(GTest QUIET)
if(NOT TARGET GTest::gtest)
  set(googletest ${LEEWAY_CARRY}/googletest/googletest)
  set(googlemock ${LEEWAY_CARRY}/googletest/googlemock)
  if(NOT EXISTS ${googletest}/src/gtest-all.cc)
    message(FATAL_ERROR "GoogleTest not found: run tools/setup tests, or tools/carry on a machine "
            "that has it")
  endif()
  add_library(leeway_googletest STATIC ${googletest}/src/gtest-all.cc
              ${googletest}/src/gtest_main.cc ${googlemock}/src/gmock-all.cc)
  target_include_directories(leeway_googletest SYSTEM PUBLIC ${googletest}/include
                             ${googlemock}/include)
  target_include_directories(leeway_googletest PRIVATE ${googletest} ${googlemock})
  target_link_libraries(leeway_googletest PUBLIC Threads::Threads)
  foreach(name gtest gtest_main gmock)
    add_library(GTest::${name} ALIAS leeway_googletest)
  endforeach()
endif()
