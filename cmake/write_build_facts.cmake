# Writes the source of what `peercache version` says of the build: cmake -D OUT=... -D ROOT=... -D LIBRARIES=name=version,... -P
# The file is written only when it changes. Formats come from scripts/wire_digests.txt, which the test lint.wire compares
# with the constants.
cmake_minimum_required(VERSION 3.25)
execute_process(COMMAND git -C ${ROOT} rev-parse HEAD OUTPUT_VARIABLE commit OUTPUT_STRIP_TRAILING_WHITESPACE
  ERROR_QUIET RESULT_VARIABLE failed)
if(failed)
  set(commit "")
endif()

set(formats)
file(STRINGS ${ROOT}/scripts/wire_digests.txt lines REGEX "^[^#]")
foreach(line IN LISTS lines)
  if(line MATCHES "^([^:]+)/[^/:]+:([a-z_]+)\t([^\t]+)\t")
    set(name ${CMAKE_MATCH_2})
    if(name STREQUAL "magic" OR name STREQUAL "encoding_version")
      set(name cleared_${name}) # Their names say it only in their files.
    endif()
    list(APPEND formats "    {\"${name}\", \"${CMAKE_MATCH_3}\"},")
  endif()
endforeach()
list(REMOVE_DUPLICATES formats)
list(JOIN formats "\n" formats)

set(libraries)
string(REPLACE "," ";" pairs "${LIBRARIES}")
foreach(pair IN LISTS pairs)
  if(pair MATCHES "^([^=]+)=(.+)$")
    string(APPEND libraries "    {\"${CMAKE_MATCH_1}\", \"${CMAKE_MATCH_2}\"},\n")
  endif()
endforeach()

file(CONFIGURE OUTPUT ${OUT} @ONLY CONTENT "#include \"cli/build_facts.hpp\"

namespace peercache::cli {

constexpr named_text formats[] = {
@formats@
};
constexpr named_text libraries[] = {
@libraries@};

build_facts facts_of_build() noexcept {
  return {\"@commit@\", formats, libraries};
}

} // namespace peercache::cli
")
