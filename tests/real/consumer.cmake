# Installs the client libraries and builds programs with them as other projects do: through CMake and through
# pkg-config.
if(NOT TARGET peercache_client_shared)
  return()
endif()

set(prefix ${PROJECT_BINARY_DIR}/consumer/prefix)
set(consumer ${PROJECT_SOURCE_DIR}/tests/real/consumer)

add_test(NAME real.consumer_install
  COMMAND sh -ec "for component in library development; do \
    '${CMAKE_COMMAND}' --install '${PROJECT_BINARY_DIR}' --component $component --prefix '${prefix}'; done")
set_tests_properties(real.consumer_install PROPERTIES LABELS real FIXTURES_SETUP installed_client)

add_test(NAME real.consumer_cmake
  COMMAND ${CMAKE_CTEST_COMMAND} --build-and-test ${consumer} ${PROJECT_BINARY_DIR}/consumer/cmake
    --build-generator ${CMAKE_GENERATOR}
    --build-options -DCMAKE_PREFIX_PATH=${prefix} -DCMAKE_CXX_COMPILER=${CMAKE_CXX_COMPILER}
      -DCMAKE_C_COMPILER=${CMAKE_C_COMPILER}
    --test-command consumer)
add_test(NAME real.consumer_pkgconfig
  COMMAND ${consumer}/with_pkg_config.sh ${prefix} ${CMAKE_INSTALL_LIBDIR} ${CMAKE_CXX_COMPILER}
    ${PROJECT_BINARY_DIR}/consumer/pkg_config)
add_test(NAME real.consumer_c_examples
  COMMAND ${consumer}/c_examples.sh ${prefix} ${CMAKE_INSTALL_LIBDIR} ${CMAKE_C_COMPILER} ${CMAKE_CXX_COMPILER}
    ${PROJECT_BINARY_DIR}/consumer/c_examples $<TARGET_FILE:peercache_node>)
add_test(NAME real.consumer_exports COMMAND ${consumer}/exports.sh $<TARGET_FILE:peercache_client_shared>)
set_tests_properties(real.consumer_exports PROPERTIES LABELS real TIMEOUT 60)
set_tests_properties(real.consumer_cmake real.consumer_pkgconfig real.consumer_c_examples PROPERTIES
  LABELS real FIXTURES_REQUIRED installed_client TIMEOUT 120)
