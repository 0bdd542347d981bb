# What other projects build against: libpeercache.so.0 for C (client/c); for C++ one shared library that holds
# every folder that the client needs, so that its users link neither our static libraries nor CAF; the headers
# that both show, as <peercache/...>; a CMake package (find_package(peercache): peercache::peercache and
# peercache::client) and pkg-config files (peercache, peercache-cpp). Installed as components: `library` is what
# programs need to run, `development` what they are built with, `node` the programs.
if(PEERCACHE_SANITIZED)
  return() # Nobody installs a sanitized library.
endif()
include(CMakePackageConfigHelpers)

# These folders whole, for their public headers declare functions that the client itself may not call;
# of the others only what these need.
foreach(folder common directory discovery net rdma)
  list(APPEND whole $<TARGET_OBJECTS:peercache_${folder}>)
endforeach()
# client/embedded.cpp, a node within the process, is left out, since no installed header shows it. For that it is an object of its own.
set_source_files_properties(${PROJECT_SOURCE_DIR}/client/embedded.cpp TARGET_DIRECTORY peercache_client
  PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
list(APPEND whole $<FILTER:$<TARGET_OBJECTS:peercache_client>,EXCLUDE,/embedded[.]cpp>)
add_library(peercache_client_shared SHARED ${whole})
set_target_properties(peercache_client_shared PROPERTIES
  OUTPUT_NAME peercache_client EXPORT_NAME client LINKER_LANGUAGE CXX
  VERSION ${PROJECT_VERSION} SOVERSION ${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR})
target_link_libraries(peercache_client_shared PRIVATE peercache_client peercache_guards)
# The libraries of the node's HTTP port stand on the link line, but no engine is to load them.
target_link_options(peercache_client_shared PRIVATE LINKER:--as-needed LINKER:--no-undefined
  LINKER:--version-script=${PROJECT_SOURCE_DIR}/cmake/peercache_client.map)
set_target_properties(peercache_client_shared PROPERTIES LINK_DEPENDS ${PROJECT_SOURCE_DIR}/cmake/peercache_client.map)
target_compile_features(peercache_client_shared INTERFACE cxx_std_20)
foreach(library peercache_client_shared peercache_c)
  target_include_directories(${library} INTERFACE $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
endforeach()

install(TARGETS peercache_client_shared peercache_c EXPORT peercacheTargets
  LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT library NAMELINK_COMPONENT development)

# The client's header and what it includes; the consumer tests fail when one is missing.
set(public_headers
  client/cache_client.hpp client/page_view.hpp client/async_calls.hpp client/admin_client.hpp
  client/values/call_results.hpp client/values/client_options.hpp client/values/client_stats.hpp client/values/gpu_news.hpp client/values/pages.hpp
  link/node_status.hpp link/protocol/calls.hpp link/protocol/history.hpp link/protocol/reports.hpp metrics/latency_histogram.hpp metrics/metric_table.hpp metrics/samples.hpp
  common/assert.hpp common/call_modes.hpp common/error.hpp common/hash_seed.hpp common/ids.hpp common/limits.hpp common/overlap.hpp common/page_key.hpp
  common/page_origin.hpp common/page_part.hpp common/page_status.hpp common/result.hpp
  common/tls_paths.hpp
  directory/page_location.hpp discovery/view.hpp
  rdma/verbs/path_options.hpp rdma/verbs/rail_choice.hpp)
configure_file(${PROJECT_SOURCE_DIR}/cmake/install_headers.cmake.in ${PROJECT_BINARY_DIR}/install_headers.cmake @ONLY)
install(SCRIPT ${PROJECT_BINARY_DIR}/install_headers.cmake COMPONENT development)
install(FILES ${PROJECT_SOURCE_DIR}/client/c/peercache.h ${PEERCACHE_GENERATED_HEADERS}/peercache/version.h
  DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/peercache COMPONENT development)

set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/peercache)
install(EXPORT peercacheTargets NAMESPACE peercache:: DESTINATION ${package_dir} COMPONENT development)
configure_package_config_file(${PROJECT_SOURCE_DIR}/cmake/peercacheConfig.cmake.in
  ${PROJECT_BINARY_DIR}/peercacheConfig.cmake INSTALL_DESTINATION ${package_dir})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/peercacheConfigVersion.cmake
  COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/peercacheConfig.cmake
  ${PROJECT_BINARY_DIR}/peercacheConfigVersion.cmake
  DESTINATION ${package_dir} COMPONENT development)

file(RELATIVE_PATH peercache_prefix_from_pc /prefix/${CMAKE_INSTALL_LIBDIR}/pkgconfig /prefix)
foreach(name peercache peercache-cpp)
  configure_file(${PROJECT_SOURCE_DIR}/cmake/${name}.pc.in ${PROJECT_BINARY_DIR}/${name}.pc @ONLY)
  install(FILES ${PROJECT_BINARY_DIR}/${name}.pc
    DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig COMPONENT development)
endforeach()
