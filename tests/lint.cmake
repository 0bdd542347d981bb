# The house rules as tests: label lint.
function(peercache_lint name)
  add_test(NAME lint.${name} COMMAND ${ARGN} WORKING_DIRECTORY ${PROJECT_SOURCE_DIR})
  set_tests_properties(lint.${name} PROPERTIES LABELS lint TIMEOUT 600)
endfunction()

find_package(Python3 REQUIRED COMPONENTS Interpreter)
# Checks must not leave __pycache__ in the tree.
set(python ${Python3_EXECUTABLE} -B)

foreach(check includes lengths style wire)
  peercache_lint(${check} ${python} scripts/check_${check}.py)
endforeach()
peercache_lint(planted_faults ${python} scripts/plant_faults --check)
peercache_lint(checkers ${python} -m unittest discover -s tests/lint -p "*_test.py")

# The rules for Prometheus: that they are well formed, and that each alert fires when it is to.
find_program(PROMTOOL promtool)
if(PROMTOOL)
  peercache_lint(rules ${PROMTOOL} check rules config/monitoring/alerts.yaml config/monitoring/recording.yaml)
  peercache_lint(alerts ${PROMTOOL} test rules tests/lint/alerts_test.yaml)
endif()

find_program(SHELLCHECK shellcheck)
if(SHELLCHECK)
  peercache_lint(shell ${python} tests/lint/shell_scripts.py ${SHELLCHECK})
endif()
find_program(YAMLLINT yamllint)
if(YAMLLINT)
  peercache_lint(yaml ${YAMLLINT} --strict .yamllint config tests/lint)
endif()

# Guides and reference: no warning, no dead link. Skipped, with a sentence, where doxygen or mkdocs is not installed.
peercache_lint(documents ${python} scripts/build-docs ${PROJECT_BINARY_DIR}/documents)
set_tests_properties(lint.documents PROPERTIES SKIP_RETURN_CODE 77)

find_program(CLANG_FORMAT clang-format)
if(CLANG_FORMAT)
  peercache_lint(format scripts/format --check)
  set_tests_properties(lint.format PROPERTIES SKIP_RETURN_CODE 77)
endif()

find_program(CLANG_TIDY clang-tidy)
if(CLANG_TIDY)
  peercache_lint(tidy ${python} scripts/tidy ${PROJECT_BINARY_DIR})
  set_tests_properties(lint.tidy PROPERTIES PROCESSORS 2 COST 900 TIMEOUT 1200 SKIP_RETURN_CODE 77)
  # ctest gives each processor that comes free to a test that needs one, so one that needs two begins when all others have
  # ended. But it begins first those that others depend on: with this dependency verbs.soft_roce is one of them, and its two
  # processors come free at once, for this test. With more processors both run side by side.
  cmake_host_system_information(RESULT processors QUERY NUMBER_OF_LOGICAL_CORES)
  if(processors LESS 3)
    set_tests_properties(lint.tidy PROPERTIES DEPENDS verbs.soft_roce)
  endif()
endif()
