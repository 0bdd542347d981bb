# Writes a source with the bytes of files, each compressed by gzip: cmake -D OUT=... -D ROOT=... -D "FILES=path=type,..." -P
# Paths are from ROOT; a file is served at "/" and its name, index.html at "/". metrics/dashboard_assets.hpp declares what
# is written.
cmake_minimum_required(VERSION 3.25)
set(arrays)
set(rows)
set(number 0)
string(REPLACE "," ";" files "${FILES}")
foreach(file IN LISTS files)
  if(NOT file MATCHES "^(([^=]*/)?([^=/]+))=(.+)$")
    message(FATAL_ERROR "not of the form path=type: ${file}")
  endif()
  set(path ${CMAKE_MATCH_1})
  set(name ${CMAKE_MATCH_3})
  set(type ${CMAKE_MATCH_4})
  if(name STREQUAL "index.html")
    set(name "")
  endif()
  execute_process(COMMAND gzip -9 -n -c INPUT_FILE ${ROOT}/${path} OUTPUT_FILE ${OUT}.gz COMMAND_ERROR_IS_FATAL ANY)
  file(READ ${OUT}.gz hex HEX)
  file(REMOVE ${OUT}.gz)
  string(REGEX REPLACE "(..)" "\\\\x\\1" bytes "${hex}")
  string(REGEX REPLACE "(................................................................)" "\\1\"\n    \"" bytes "${bytes}")
  string(APPEND arrays "constexpr char file_${number}[] =\n    \"${bytes}\";\n")
  string(APPEND rows "    dashboard_asset{\"/${name}\", \"${type}\", {file_${number}, sizeof file_${number} - 1}},\n")
  math(EXPR number "${number} + 1")
endforeach()
file(WRITE ${OUT} "#include \"metrics/dashboard_assets.hpp\"\n
namespace peercache::metrics {\nnamespace {\n\n${arrays}\nconstexpr dashboard_asset assets[] = {\n${rows}};\n
} // namespace\n\nstd::span<const dashboard_asset> dashboard_assets() noexcept {\n  return assets;\n}\n
} // namespace peercache::metrics\n")
