# WickProducts -- what the folders are put together into, and where a wheel carries it
#
#   libwick.so       core .. load                     wick/lib       C programs
#   wick             core .. load + cli               bin            the command
#   wick.1           printed by the command           share/man/man1 its manual page
#   _wick.abi3.so    core .. load + torch + python    wick           Python
#   wick_ops.so      ops/, built by the command       wick           the operators that come with Wick
#   sources/         ops/ itself                      wick           what they are made from and compared with
#   ops.pyi          printed by the command           wick           the same for editors and type checkers
#
# None links anything but libc, libm, libdl and the threads.

if(SKBUILD)
    set(WICK_PACKAGE_DIR ${SKBUILD_PLATLIB_DIR}/wick)
    set(WICK_SCRIPTS_DIR ${SKBUILD_SCRIPTS_DIR})
    set(WICK_DATA_DIR ${SKBUILD_DATA_DIR}/share)
else()
    set(WICK_PACKAGE_DIR lib/wick)
    set(WICK_SCRIPTS_DIR bin)
    set(WICK_DATA_DIR share)
endif()

install(DIRECTORY ${PROJECT_SOURCE_DIR}/include/wick DESTINATION ${WICK_PACKAGE_DIR}/include FILES_MATCHING PATTERN "*.h")

# find_package(wick), for those who build operators with CMake.
include(CMakePackageConfigHelpers)
configure_file(${PROJECT_SOURCE_DIR}/cmake/wick-config.cmake.in ${CMAKE_BINARY_DIR}/package/wick-config.cmake @ONLY)
write_basic_package_version_file(
    ${CMAKE_BINARY_DIR}/package/wick-config-version.cmake COMPATIBILITY SameMinorVersion ARCH_INDEPENDENT)
install(FILES ${CMAKE_BINARY_DIR}/package/wick-config.cmake ${CMAKE_BINARY_DIR}/package/wick-config-version.cmake
              ${PROJECT_SOURCE_DIR}/cmake/WickOperators.cmake DESTINATION ${WICK_PACKAGE_DIR}/cmake)

# Undefined symbols are found now and not at the user's first call.
set(WICK_LINK_CHECKED)
if(NOT WICK_SANITIZE)
    set(WICK_LINK_CHECKED -Wl,-z,defs)
endif()

if(TARGET wick_core)
    add_library(libwick SHARED)
    set_target_properties(libwick PROPERTIES OUTPUT_NAME wick LINKER_LANGUAGE C)
    wick_link_folders(libwick load)
    target_link_options(libwick PRIVATE ${WICK_LINK_CHECKED})
    install(TARGETS libwick LIBRARY DESTINATION ${WICK_PACKAGE_DIR}/lib)
endif()

if(TARGET wick_cli)
    add_executable(wick)
    set_target_properties(wick PROPERTIES LINKER_LANGUAGE C)
    wick_link_folders(wick load cli)
    install(TARGETS wick RUNTIME DESTINATION ${WICK_SCRIPTS_DIR})
    add_custom_command(
        OUTPUT ${CMAKE_BINARY_DIR}/wick.1
        COMMAND $<TARGET_FILE:wick> man > ${CMAKE_BINARY_DIR}/wick.1
        DEPENDS wick
        VERBATIM)
    add_custom_target(wick_manual ALL DEPENDS ${CMAKE_BINARY_DIR}/wick.1)
    install(FILES ${CMAKE_BINARY_DIR}/wick.1 DESTINATION ${WICK_DATA_DIR}/man/man1)
endif()

if(TARGET wick_python)
    target_compile_definitions(wick_python PRIVATE Py_LIMITED_API=${WICK_PY_LIMITED_API})
    target_include_directories(wick_python SYSTEM PRIVATE ${Python_INCLUDE_DIRS})
    add_library(_wick MODULE)
    set_target_properties(_wick PROPERTIES PREFIX "" SUFFIX ".abi3.so" LINKER_LANGUAGE C)
    wick_link_folders(_wick python)
    # Of ours only the init function leaves: a libwick.so in the same process must not take the place of our functions.
    target_link_options(_wick PRIVATE -Wl,--version-script=${PROJECT_SOURCE_DIR}/cmake/extension.map)
    set_property(TARGET _wick APPEND PROPERTY LINK_DEPENDS ${PROJECT_SOURCE_DIR}/cmake/extension.map)
    install(TARGETS _wick LIBRARY DESTINATION ${WICK_PACKAGE_DIR})
endif()

# Kernels are compiled by NVRTC, a library that NVIDIA publishes as a Python package, or else by nvcc.
option(WICK_CUDA "the shipped operators' CUDA versions, too" ON)
if(DEFINED ENV{USE_CUDA} AND NOT "$ENV{USE_CUDA}")
    set(WICK_CUDA OFF)
endif()
set(WICK_OPS_FLAGS)
set(WICK_OPS_ENVIRONMENT WICK_INCLUDE=${PROJECT_SOURCE_DIR}/include)
if(NOT DEFINED ENV{WICK_CUDA_ARCHS} AND NOT DEFINED ENV{GPU_TARGETS})
    list(APPEND WICK_OPS_FLAGS --arch sm_90,compute_80) # a wheel has room for no more; other GPUs take the PTX
endif()
if(NOT WICK_CUDA)
    list(APPEND WICK_OPS_FLAGS --no-cuda)
elseif(DEFINED ENV{WICK_NVRTC})
    list(APPEND WICK_OPS_ENVIRONMENT WICK_NVRTC=$ENV{WICK_NVRTC})
elseif(Python_EXECUTABLE)
    execute_process(COMMAND ${Python_EXECUTABLE} ${PROJECT_SOURCE_DIR}/tools/find_nvrtc.py OUTPUT_VARIABLE WICK_NVRTC
                    OUTPUT_STRIP_TRAILING_WHITESPACE)
    if(WICK_NVRTC)
        list(APPEND WICK_OPS_ENVIRONMENT WICK_NVRTC=${WICK_NVRTC})
    endif()
endif()

# The one place where files are found by pattern: a new operator is one new file.
file(GLOB_RECURSE WICK_OPS CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/ops/*.c)
file(GLOB WICK_OP_HEADERS CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/include/wick/*.h ${PROJECT_SOURCE_DIR}/ops/*.h
     ${PROJECT_SOURCE_DIR}/ops/*/*.h)
if(TARGET wick AND WICK_OPS)
    list(TRANSFORM WICK_OPS REPLACE "^${PROJECT_SOURCE_DIR}/" "" OUTPUT_VARIABLE op_names)
    add_custom_command(
        OUTPUT ${CMAKE_BINARY_DIR}/wick_ops.so
        COMMAND ${CMAKE_COMMAND} -E env ${WICK_OPS_ENVIRONMENT} $<TARGET_FILE:wick> build ${WICK_OPS_FLAGS} --portable --namespace wick -o ${CMAKE_BINARY_DIR}/wick_ops.so ${op_names}
        COMMAND ${CMAKE_STRIP} --strip-unneeded ${CMAKE_BINARY_DIR}/wick_ops.so
        WORKING_DIRECTORY ${PROJECT_SOURCE_DIR}
        DEPENDS wick ${WICK_OPS} ${WICK_OP_HEADERS}
        COMMENT "Building the shipped operators with wick build"
        VERBATIM)
    add_custom_target(wick_ops ALL DEPENDS ${CMAKE_BINARY_DIR}/wick_ops.so)
    install(PROGRAMS ${CMAKE_BINARY_DIR}/wick_ops.so DESTINATION ${WICK_PACKAGE_DIR})

    set(WICK_STUB_HEAD ${PROJECT_SOURCE_DIR}/cmake/ops_head.pyi)
    add_custom_command(
        OUTPUT ${CMAKE_BINARY_DIR}/ops.pyi
        COMMAND $<TARGET_FILE:wick> show ${CMAKE_BINARY_DIR}/wick_ops.so --stub > ${CMAKE_BINARY_DIR}/ops_functions.pyi
        COMMAND ${CMAKE_COMMAND} -E cat ${WICK_STUB_HEAD} ${CMAKE_BINARY_DIR}/ops_functions.pyi > ${CMAKE_BINARY_DIR}/ops.pyi
        DEPENDS ${CMAKE_BINARY_DIR}/wick_ops.so ${WICK_STUB_HEAD}
        VERBATIM)
    add_custom_target(wick_ops_stub ALL DEPENDS ${CMAKE_BINARY_DIR}/ops.pyi)
    install(FILES ${CMAKE_BINARY_DIR}/ops.pyi DESTINATION ${WICK_PACKAGE_DIR})
endif()

# What the shipped operators are made from, compared with and measured at: `wick show`, `wick check`, `wick bench`.
install(DIRECTORY ${PROJECT_SOURCE_DIR}/ops/ DESTINATION ${WICK_PACKAGE_DIR}/sources
        FILES_MATCHING PATTERN "*.[ch]" PATTERN "*.py" PATTERN "*.shapes.txt" PATTERN "__pycache__" EXCLUDE)
