# Warnings and hardening that every target of ours has.
add_library(peercache_flags INTERFACE)
target_compile_options(peercache_flags INTERFACE
  $<$<COMPILE_LANGUAGE:CXX>:-Wall -Wextra -Werror -Wno-missing-field-initializers>)
target_include_directories(peercache_flags INTERFACE ${PROJECT_SOURCE_DIR})
if(CMAKE_BUILD_TYPE STREQUAL "Release")
  # Files are named from the root of the sources, so that builds in different folders are the same bytes
  # (scripts/release). Of two prefixes that fit, the last one counts.
  target_compile_options(peercache_flags INTERFACE
    -ffile-prefix-map=${PROJECT_SOURCE_DIR}=. -ffile-prefix-map=${PROJECT_BINARY_DIR}=./build)
endif()
if(CMAKE_UNITY_BUILD)
  # Several sources compiled as one look like headers to it.
  target_compile_options(peercache_flags INTERFACE
    $<$<COMPILE_LANG_AND_ID:CXX,GNU>:-Wno-subobject-linkage>)
endif()

# peercache_component(<name> [INLINED] [FOLDERS <folders>...] [LINK <targets>...] [EXCLUDE <files>...])
# The static library peercache_<name> of all sources of this folder and of those below it that are
# named, but the excluded ones.
# It may leave peercache::guard_on undefined: executables link either peercache_guards or, tests only,
# peercache_switchable_guards.
# INLINED: for code that runs for each key of a batch. In position-independent code g++ takes each function
# that other files may call for one that a library loaded earlier may replace, and inlines none of them.
function(peercache_component name)
  cmake_parse_arguments(arg "INLINED" "" "FOLDERS;LINK;EXCLUDE" ${ARGN})
  file(GLOB sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/*.cpp)
  foreach(folder ${arg_FOLDERS})
    file(GLOB more CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/${folder}/*.cpp)
    list(APPEND sources ${more})
  endforeach()
  list(TRANSFORM arg_EXCLUDE PREPEND ${CMAKE_CURRENT_SOURCE_DIR}/)
  list(REMOVE_ITEM sources ${arg_EXCLUDE})
  add_library(peercache_${name} STATIC ${sources})
  target_link_libraries(peercache_${name} PUBLIC peercache_flags ${arg_LINK})
  if(arg_INLINED)
    target_compile_options(peercache_${name} PRIVATE
      $<$<COMPILE_LANG_AND_ID:CXX,GNU>:-fno-semantic-interposition>)
  endif()
endfunction()

# peercache_thin(<target>)
# More than half of the target's compile time is optimization, and no test waits for its code: sanitized
# builds do without.
function(peercache_thin target)
  if(PEERCACHE_SANITIZED)
    target_compile_options(${target} PRIVATE -O0)
  endif()
endfunction()

# peercache_caf_pch(<target>)
# Compiles the target with the headers of CAF precompiled once for all targets: about 2 seconds less for
# each file that includes them. The sources still include what they use, so that clang-tidy and a
# build without the precompiled header see the same text.
function(peercache_caf_pch target)
  if(NOT TARGET peercache_caf_pch)
    file(CONFIGURE OUTPUT ${PROJECT_BINARY_DIR}/caf_pch.cpp CONTENT "")
    add_library(peercache_caf_pch OBJECT ${PROJECT_BINARY_DIR}/caf_pch.cpp)
    target_link_libraries(peercache_caf_pch PRIVATE peercache_flags CAF::io spdlog::spdlog)
    target_compile_options(peercache_caf_pch PRIVATE $<$<CXX_COMPILER_ID:GNU>:-fpch-preprocess>)
    peercache_thin(peercache_caf_pch)
    target_precompile_headers(peercache_caf_pch PRIVATE <caf/all.hpp> <caf/io/all.hpp>)
  endif()
  peercache_thin(${target})
  target_compile_options(${target} PRIVATE $<$<CXX_COMPILER_ID:GNU>:-fpch-preprocess>)
  target_precompile_headers(${target} REUSE_FROM peercache_caf_pch)
endfunction()

# The rings whose tests are there; the target ring_<name> builds the programs of one.
set(PEERCACHE_RINGS pure actor scenario real verbs python lint CACHE STRING "Rings of tests to build")
foreach(ring ${PEERCACHE_RINGS})
  add_custom_target(ring_${ring})
endforeach()

# peercache_sharded_tests(<name> <ring>)
# A program that is sanitized or emulated takes half a second to start, most of its tests some milliseconds: each ctest
# test of it is a quarter of its cases in one process. The output of one that fails names the case.
function(peercache_sharded_tests name ring)
  set(shards 4)
  set(seconds 600)
  if(CMAKE_CROSSCOMPILING)
    set(seconds 1800)
  endif()
  foreach(shard RANGE 1 ${shards})
    math(EXPR index "${shard} - 1")
    add_test(NAME ${name}.part_${shard}_of_${shards} COMMAND ${name}_tests)
    set_tests_properties(${name}.part_${shard}_of_${shards} PROPERTIES LABELS ${ring} TIMEOUT ${seconds}
      ENVIRONMENT "GTEST_TOTAL_SHARDS=${shards};GTEST_SHARD_INDEX=${index}")
  endforeach()
endfunction()

# peercache_timed(<tests>...)
# The tests measure time, so each of them runs alone; `ctest -L timed` runs them, and no others.
function(peercache_timed)
  foreach(test ${ARGN})
    set_property(TEST ${test} APPEND PROPERTY LABELS timed)
    set_property(TEST ${test} PROPERTY RUN_SERIAL ON)
  endforeach()
endfunction()

# peercache_cases(<list> <properties>...)
# Gives properties to the tests that a call of gtest_discover_tests names in its TEST_LIST. ctest knows the cases only when it
# starts, and gtest_discover_tests takes no property of several values.
function(peercache_cases list)
  list(JOIN ARGN "\" \"" properties)
  set(file ${CMAKE_CURRENT_BINARY_DIR}/${list}_properties.cmake)
  file(WRITE ${file} "foreach(test \${${list}})\n  set_tests_properties(\${test} PROPERTIES \"${properties}\")\nendforeach()\n")
  set_property(DIRECTORY APPEND PROPERTY TEST_INCLUDE_FILES ${file})
endfunction()

# peercache_test(<folder> LABEL <ring> [OPTIMIZED] [FOLDERS <folders>...] [LINK <targets>...]
#   [WITH <files>...] [UNTIMED <suites>] [ALSO <labels>...])
# One test program of all *_test.cpp in tests/<folder> and in those folders of it that are named, and of
# the files there that they share; each case is a ctest test, but for the emulated ones, and for the sanitized ones of
# the rings `pure` and `actor` (peercache_sharded_tests). The tests' own code is not optimized, which halves its
# compile time, unless they compute for long. Tests of the ring `real` are timed (peercache_timed);
# but those of the UNTIMED suites, a filter of GoogleTest, run beside others, and apart from them
# (tests/apart). Such a test waits for conditions, for ten seconds where it needs one, and none of its living nodes may
# be given up within 2 s.
function(peercache_test folder)
  cmake_parse_arguments(arg "OPTIMIZED" "LABEL;UNTIMED" "FOLDERS;LINK;WITH;ALSO" ${ARGN})
  if(NOT arg_LABEL IN_LIST PEERCACHE_RINGS)
    return()
  endif()
  file(GLOB sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/tests/${folder}/*_test.cpp)
  foreach(below ${arg_FOLDERS})
    file(GLOB more CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/tests/${folder}/${below}/*_test.cpp)
    list(APPEND sources ${more})
  endforeach()
  list(TRANSFORM arg_WITH PREPEND ${PROJECT_SOURCE_DIR}/tests/${folder}/)
  if(NOT sources)
    return()
  endif()
  string(REPLACE "/" "_" name ${folder})
  add_executable(${name}_tests ${sources} ${arg_WITH})
  if(PEERCACHE_SANITIZED)
    target_sources(${name}_tests PRIVATE ${PROJECT_SOURCE_DIR}/tests/support/known_leaks.cpp)
  endif()
  target_link_libraries(${name}_tests PRIVATE ${arg_LINK} peercache_switchable_guards
    GTest::gtest GTest::gmock GTest::gtest_main)
  target_compile_definitions(${name}_tests PRIVATE PEERCACHE_SOURCE_DIR="${PROJECT_SOURCE_DIR}")
  if(NOT arg_OPTIMIZED)
    target_compile_options(${name}_tests PRIVATE -O0)
  endif()
  add_dependencies(ring_${arg_LABEL} ${name}_tests)
  # A search among seeds for what a missing guard does is as long as its luck.
  set(seconds 120)
  if(arg_LABEL STREQUAL scenario)
    set(seconds 400)
  endif()
  set(properties LABELS ${arg_LABEL} TIMEOUT ${seconds})
  if(CMAKE_CROSSCOMPILING OR (PEERCACHE_SANITIZED AND arg_LABEL MATCHES "pure|actor"))
    peercache_sharded_tests(${name} ${arg_LABEL})
  elseif(arg_UNTIMED)
    # The property is read by each of the two calls: it is for the first one only.
    set_target_properties(${name}_tests PROPERTIES CROSSCOMPILING_EMULATOR ${PROJECT_SOURCE_DIR}/tests/apart)
    gtest_discover_tests(${name}_tests TEST_PREFIX ${name}. DISCOVERY_TIMEOUT 60
      TEST_FILTER ${arg_UNTIMED} TEST_LIST ${name}_untimed PROPERTIES ${properties})
    set_target_properties(${name}_tests PROPERTIES CROSSCOMPILING_EMULATOR "")
    gtest_discover_tests(${name}_tests TEST_PREFIX ${name}. DISCOVERY_TIMEOUT 60
      TEST_FILTER -${arg_UNTIMED} PROPERTIES ${properties})
  else()
    gtest_discover_tests(${name}_tests TEST_PREFIX ${name}. DISCOVERY_TIMEOUT 60
      PROPERTIES ${properties})
  endif()
  if(arg_LABEL STREQUAL real)
    set(labels ${arg_LABEL} ${arg_ALSO})
    list(JOIN labels "\\;" labels)
    peercache_cases(${name}_untimed LABELS "${labels}")
    peercache_cases(${name}_tests_TESTS LABELS "${labels}\\;timed" RUN_SERIAL ON)
  endif()
endfunction()
