# Debian packages by CPack: peercache (programs, unit), libpeercache0, libpeercache-dev and python3-peercache.
# scripts/package calls cpack, and scripts/try-debs tries them; they need Debian's shared libraries, which dpkg-shlibdeps names.
if(PEERCACHE_SANITIZED)
  return()
endif()
set(deb ${PROJECT_SOURCE_DIR}/packaging/deb)
set(PEERCACHE_CONTACT "The PeerCache authors <peercache@example.org>" CACHE STRING "Who answers for the packages")
configure_file(${deb}/changelog.in ${PROJECT_BINARY_DIR}/deb/changelog @ONLY)
# Compressed without name and time, so that the same text gives the same bytes.
execute_process(COMMAND gzip -9nkf ${PROJECT_BINARY_DIR}/deb/changelog COMMAND_ERROR_IS_FATAL ANY)
include(${deb}/install.cmake)

set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME peercache)
set(CPACK_PACKAGE_VERSION ${PROJECT_VERSION})
set(CPACK_PACKAGE_CONTACT ${PEERCACHE_CONTACT})
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_INSTALL_DEFAULT_DIRECTORY_PERMISSIONS OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE
  WORLD_READ WORLD_EXECUTE)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_COMPONENTS_GROUPING IGNORE)
set(CPACK_COMPONENTS_ALL node library development python)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)

# peercache_package(<component> <package> <section> <text>)
function(peercache_package component package section summary)
  string(TOUPPER ${component} name)
  set(CPACK_DEBIAN_${name}_PACKAGE_NAME ${package} PARENT_SCOPE)
  set(CPACK_DEBIAN_${name}_PACKAGE_SECTION ${section} PARENT_SCOPE)
  set(CPACK_DEBIAN_${name}_DESCRIPTION "${summary}
PeerCache is a cluster's shared memory for the attention keys and values
of LLM inference: hosts keep the pages of prompt prefixes, and pull them
from each other by RDMA or TCP." PARENT_SCOPE)
endfunction()
peercache_package(node peercache net "node and command line of PeerCache")
peercache_package(library libpeercache0 libs "client of PeerCache for C and C++: shared libraries")
peercache_package(development libpeercache-dev libdevel "client of PeerCache for C and C++: headers")
peercache_package(python python3-peercache python "client of PeerCache for Python, and SGLang's storage backend")

set(CPACK_DEBIAN_NODE_PACKAGE_CONTROL_EXTRA ${deb}/node/postinst ${deb}/node/prerm
  ${deb}/node/postrm ${deb}/node/conffiles)
set(CPACK_DEBIAN_NODE_PACKAGE_CONTROL_STRICT_PERMISSION ON)
set(CPACK_DEBIAN_NODE_PACKAGE_DEPENDS passwd)
set(CPACK_DEBIAN_NODE_PACKAGE_RECOMMENDS "ibverbs-providers, libibverbs1")
set(CPACK_DEBIAN_LIBRARY_PACKAGE_CONTROL_EXTRA ${deb}/triggers)
set(CPACK_DEBIAN_LIBRARY_PACKAGE_CONTROL_STRICT_PERMISSION ON)
# What packages of programs that link the libraries depend on.
set(CPACK_DEBIAN_PACKAGE_GENERATE_SHLIBS ON)
set(CPACK_DEBIAN_PACKAGE_GENERATE_SHLIBS_POLICY ">=")
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_DEPENDS "libpeercache0 (= ${PROJECT_VERSION})")
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_SHLIBDEPS OFF)
set(CPACK_DEBIAN_PYTHON_PACKAGE_CONTROL_EXTRA ${deb}/python/postinst ${deb}/python/prerm)
set(CPACK_DEBIAN_PYTHON_PACKAGE_CONTROL_STRICT_PERMISSION ON)
set(CPACK_DEBIAN_PYTHON_PACKAGE_DEPENDS "python3 (>= 3.10), python3-numpy")
include(CPack)
