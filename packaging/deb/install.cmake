# What Debian packages have besides the programs and libraries (cmake/peercache_install.cmake): unit, user, folder,
# configuration, the Python package with the machine's libraries, and each package's copyright and changelog.
set(deb ${PROJECT_SOURCE_DIR}/packaging/deb)

# The unit of the archive, with the places of a package.
file(READ ${PROJECT_SOURCE_DIR}/config/peercache-node.service unit)
string(REGEX REPLACE "^# systemd unit[^[]*" "# The engines of this host map the node's pool, which is open to its own user alone, root or not. Where they run as another
# user, name that one in a drop-in (systemctl edit peercache-node); the user peercache is there for hosts that have none.

" unit "${unit}")
string(REPLACE "/opt/peercache/bin/" "/usr/bin/" unit "${unit}")
string(REPLACE "/opt/peercache/share/" "/usr/share/doc/peercache/" unit "${unit}")
file(CONFIGURE OUTPUT ${PROJECT_BINARY_DIR}/deb/peercache-node.service CONTENT "${unit}" @ONLY)

install(FILES ${PROJECT_BINARY_DIR}/deb/peercache-node.service DESTINATION lib/systemd/system COMPONENT node)
install(FILES ${deb}/sysusers.conf RENAME peercache.conf DESTINATION lib/sysusers.d COMPONENT node)
install(FILES ${deb}/tmpfiles.conf RENAME peercache.conf DESTINATION lib/tmpfiles.d COMPONENT node)
install(FILES ${PROJECT_SOURCE_DIR}/config/peercache.toml DESTINATION /etc/peercache COMPONENT node)
install(FILES ${PROJECT_SOURCE_DIR}/README.md DESTINATION share/doc/peercache COMPONENT node)

set(modules lib/python3/dist-packages)
install(DIRECTORY ${PROJECT_SOURCE_DIR}/python/peercache DESTINATION ${modules} COMPONENT python
  FILES_MATCHING PATTERN "*.py" PATTERN "*.pyi" PATTERN "py.typed" PATTERN "__pycache__" EXCLUDE)
install(TARGETS peercache_native LIBRARY DESTINATION ${modules}/peercache COMPONENT python)
file(CONFIGURE OUTPUT ${PROJECT_BINARY_DIR}/deb/METADATA @ONLY CONTENT "Metadata-Version: 2.1
Name: peercache
Version: @PROJECT_VERSION@
")
file(CONFIGURE OUTPUT ${PROJECT_BINARY_DIR}/deb/entry_points.txt @ONLY CONTENT "[sglang.srt.plugins]
peercache = peercache.pd.plugin:load
")
install(FILES ${PROJECT_BINARY_DIR}/deb/METADATA ${PROJECT_BINARY_DIR}/deb/entry_points.txt
  DESTINATION ${modules}/peercache-${PROJECT_VERSION}.dist-info COMPONENT python)

foreach(pair node:peercache library:libpeercache0 development:libpeercache-dev python:python3-peercache)
  string(REPLACE ":" ";" pair ${pair})
  list(GET pair 0 component)
  list(GET pair 1 package)
  install(FILES ${deb}/copyright ${PROJECT_BINARY_DIR}/deb/changelog.gz DESTINATION share/doc/${package}
    COMPONENT ${component})
endforeach()
