# WickTests -- C unit tests with Criterion, one executable per folder of tests/

# wick_unit_test(NAME SOURCES test_a.c ... [USES folder ...] [LIBRARIES target ...] [EXPORTS])
#
# Makes the target test_NAME, the executable unit/NAME in the build folder and the CTest test `unit.NAME`. USES: the
# folders of src/ whose headers the tests include; they are linked with all that is below them. Left out: the folder
# NAME and what it may use. EXPORTS: functions of the executable are found by dlsym. Tests see WICK_TEST_ROOT, the
# root of the source tree, and WICK_TEST_BUILD, the build folder.
function(wick_unit_test name)
    cmake_parse_arguments(PARSE_ARGV 1 arg "EXPORTS" "" "SOURCES;USES;LIBRARIES")
    if(arg_UNPARSED_ARGUMENTS)
        message(FATAL_ERROR "wick_unit_test(${name}): unknown argument ${arg_UNPARSED_ARGUMENTS}")
    endif()
    if(NOT arg_USES)
        set(arg_USES ${name} ${WICK_MAY_USE_${name}})
    endif()

    set(target test_${name})
    add_executable(${target} ${arg_SOURCES})
    if(WICK_SANITIZE STREQUAL "thread")
        target_sources(${target} PRIVATE ${PROJECT_SOURCE_DIR}/tests/tsan_arena.c)
    endif()
    set_target_properties(${target} PROPERTIES OUTPUT_NAME ${name} RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/unit)
    wick_compile_as_ours(${target})
    target_compile_definitions(${target} PRIVATE WICK_TEST_ROOT="${PROJECT_SOURCE_DIR}"
                                                 WICK_TEST_BUILD="${CMAKE_BINARY_DIR}")
    # Criterion's macros make functions without prototypes and compare floats with zero.
    target_compile_options(${target} PRIVATE -Wno-missing-prototypes -Wno-pedantic)
    target_include_directories(${target} PRIVATE ${CMAKE_CURRENT_SOURCE_DIR})
    foreach(folder IN LISTS arg_USES)
        target_include_directories(${target} PRIVATE ${PROJECT_SOURCE_DIR}/src/${folder})
    endforeach()
    wick_link_folders(${target} ${arg_USES})
    target_link_libraries(${target} PRIVATE ${arg_LIBRARIES} PkgConfig::CRITERION)
    if(arg_EXPORTS)
        set_target_properties(${target} PROPERTIES ENABLE_EXPORTS ON)
    endif()

    # The report is what `make test` counts; --timeout is per test, CTest's is for the whole executable.
    add_test(NAME unit.${name} COMMAND ${target} --timeout 120 --xml=${CMAKE_BINARY_DIR}/unit/${name}.xml)
    set_tests_properties(unit.${name} PROPERTIES LABELS unit TIMEOUT 600)
    # Criterion has counted a test as passed before its .fini runs and before its process ends, which is when the leak
    # check speaks. What is said then fails the executable.
    set(late "Assertion Failed")
    if(WICK_SANITIZE)
        list(APPEND late "ERROR: [A-Za-z]+Sanitizer" "WARNING: ThreadSanitizer" "SUMMARY: [A-Za-z]+Sanitizer"
             "runtime error:")
    endif()
    set_tests_properties(unit.${name} PROPERTIES FAIL_REGULAR_EXPRESSION "${late}")
endfunction()
