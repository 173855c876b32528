# WickOperators -- operator files into modules, from CMake
#
#   find_package(wick REQUIRED)
#   wick_add_operators(TARGET FILE... [NAMESPACE ns] [INCLUDE dir...] [FLAGS flag...] [CUDA_FLAGS flag...]
#                      [DESTINATION dir])
#
# Every file becomes a module of its own, so that a change to one file, or to a header, builds again what depends on it
# and nothing else. A FILE with a `*` stands for all that it matches, also those that come later.
#
#   TARGET       the name of a target that builds the modules; its property WICK_MODULES lists them
#   NAMESPACE    of files that have no WICK_NAMESPACE (an editable install wants it in the file)
#   INCLUDE      folders where #include <...> looks
#   FLAGS        further flags for the C compiler
#   CUDA_FLAGS   further flags for the compiler of kernels, spelt as nvcc's
#   DESTINATION  where `install` puts the modules, in the folder `operators`: a Python package that calls
#                wick.package.load_operators. In an editable install that folder names the sources instead.
#
# From the environment, when CMake configures: CC, CFLAGS, DEBUG=1 (symbols, no optimisation), USE_CUDA=0,
# WICK_CUDA_ARCHS (or GPU_TARGETS), WICK_CUDA_COMPILER, WICK_NVRTC.

# In a string of JSON.
function(_wick_quote out)
    set(items)
    foreach(item IN LISTS ARGN)
        string(REPLACE "\\" "\\\\" item "${item}")
        string(REPLACE "\"" "\\\"" item "${item}")
        list(APPEND items "\"${item}\"")
    endforeach()
    list(JOIN items ", " items)
    set(${out} "[${items}]" PARENT_SCOPE)
endfunction()

# The files that are named, patterns looked up. Absolute.
function(_wick_find_files out target)
    set(files)
    foreach(file IN LISTS ARGN)
        get_filename_component(path "${file}" ABSOLUTE BASE_DIR "${CMAKE_CURRENT_SOURCE_DIR}")
        if(file MATCHES "[*]")
            file(GLOB found CONFIGURE_DEPENDS "${path}")
            list(APPEND files ${found})
        elseif(EXISTS "${path}")
            list(APPEND files "${path}")
        else()
            message(FATAL_ERROR "wick_add_operators(${target}): there is no file ${path}")
        endif()
    endforeach()
    if(NOT files)
        message(FATAL_ERROR "wick_add_operators(${target}): no operator file was given or found")
    endif()
    list(REMOVE_DUPLICATES files)
    set(${out} "${files}" PARENT_SCOPE)
endfunction()

# "1", "on", "yes" and the like, but also any other word than those that mean no.
function(_wick_environment_is out name value)
    string(TOLOWER "$ENV{${name}}" word)
    set(no 0 off no false n)
    set(result FALSE)
    if(value AND word AND NOT word IN_LIST no)
        set(result TRUE)
    elseif(NOT value AND word IN_LIST no)
        set(result TRUE)
    endif()
    set(${out} ${result} PARENT_SCOPE)
endfunction()

# What an editor takes: each file with the flags that matter for reading it.
function(_wick_write_compile_commands flags)
    foreach(file IN LISTS ARGN)
        _wick_quote(arguments cc -std=gnu11 -Wall ${flags} -c "${file}")
        _wick_quote(file "${file}")
        string(REGEX REPLACE "^.(.*).$" "\\1" file "${file}") # one string, not a list of one
        set_property(GLOBAL APPEND PROPERTY WICK_COMPILE_COMMANDS
                     "{\"directory\": \"${CMAKE_CURRENT_SOURCE_DIR}\", \"file\": ${file}, \"arguments\": ${arguments}}")
    endforeach()
    get_property(commands GLOBAL PROPERTY WICK_COMPILE_COMMANDS)
    list(JOIN commands ",\n" commands)
    file(WRITE "${CMAKE_BINARY_DIR}/wick/compile_commands.json" "[${commands}]\n")
endfunction()

function(wick_add_operators target)
    cmake_parse_arguments(PARSE_ARGV 1 arg "" "NAMESPACE;DESTINATION" "INCLUDE;FLAGS;CUDA_FLAGS")
    _wick_find_files(files ${target} ${arg_UNPARSED_ARGUMENTS})

    set(folders)
    foreach(folder IN LISTS arg_INCLUDE)
        get_filename_component(folder "${folder}" ABSOLUTE BASE_DIR "${CMAKE_CURRENT_SOURCE_DIR}")
        list(APPEND folders "${folder}")
    endforeach()
    list(TRANSFORM folders PREPEND "-I" OUTPUT_VARIABLE flags)
    list(APPEND flags ${arg_FLAGS})
    _wick_write_compile_commands("${flags};-I${WICK_INCLUDE_DIR}" ${files})

    _wick_environment_is(debug DEBUG TRUE)
    if(SKBUILD_STATE STREQUAL "editable" AND arg_DESTINATION)
        _wick_install_sources(${target})
    else()
        _wick_build_modules(${target})
    endif()
endfunction()

# The two below see the variables of wick_add_operators.

# An editable install: the package finds its sources at import, and wick.load builds what changed.
macro(_wick_install_sources target)
    set(patterns ${arg_UNPARSED_ARGUMENTS})
    list(TRANSFORM patterns PREPEND "${CMAKE_CURRENT_SOURCE_DIR}/" REGEX "^[^/]")
    if(debug)
        list(PREPEND flags -O0 -g -DWICK_DEBUG=1) # what `wick build --debug` adds
    endif()
    _wick_quote(patterns ${patterns})
    _wick_quote(flags ${flags})
    _wick_quote(cuda_flags ${arg_CUDA_FLAGS})
    _wick_quote(namespace ${arg_NAMESPACE})
    set(list "${CMAKE_CURRENT_BINARY_DIR}/${target}/operators.json")
    file(WRITE "${list}" "{\"sources\": ${patterns}, \"flags\": ${flags}, \"cuda_flags\": ${cuda_flags}, "
                         "\"namespace\": ${namespace}}\n")
    add_custom_target(${target})
    install(FILES "${list}" DESTINATION "${arg_DESTINATION}/operators")
endmacro()

macro(_wick_build_modules target)
    set(options --quiet --include "${WICK_INCLUDE_DIR}")
    foreach(flag IN LISTS flags)
        list(APPEND options --flag "${flag}")
    endforeach()
    foreach(flag IN LISTS arg_CUDA_FLAGS)
        list(APPEND options --cuda-flag "${flag}")
    endforeach()
    if(arg_NAMESPACE)
        list(APPEND options --namespace "${arg_NAMESPACE}")
    endif()
    if(debug)
        list(APPEND options --debug)
    endif()
    # As they were when CMake configured: a later change of the environment alone builds nothing anew.
    set(environment --unset=DEBUG)
    foreach(name IN ITEMS CC CFLAGS USE_CUDA WICK_CUDA_ARCHS GPU_TARGETS WICK_CUDA_COMPILER WICK_NVRTC)
        if(DEFINED ENV{${name}})
            string(REPLACE ";" "\\;" value "$ENV{${name}}")
            list(APPEND environment "${name}=${value}")
        else()
            list(APPEND environment "--unset=${name}")
        endif()
    endforeach()

    set(modules)
    foreach(file IN LISTS files)
        get_filename_component(name "${file}" NAME_WE)
        set(module "${CMAKE_CURRENT_BINARY_DIR}/${target}/${name}.so")
        if(module IN_LIST modules)
            message(FATAL_ERROR "wick_add_operators(${target}): two files are named ${name}; their modules would be one")
        endif()
        list(APPEND modules "${module}")
        add_custom_command(
            OUTPUT "${module}"
            COMMAND "${CMAKE_COMMAND}" -E env ${environment} "${WICK_EXECUTABLE}" build "${file}" ${options}
                    --depfile "${module}.d" -o "${module}"
            DEPENDS "${file}" "${WICK_EXECUTABLE}"
            DEPFILE "${module}.d"
            COMMENT "wick build ${name}"
            VERBATIM)
    endforeach()
    file(MAKE_DIRECTORY "${CMAKE_CURRENT_BINARY_DIR}/${target}")
    add_custom_target(${target} ALL DEPENDS ${modules})
    set_target_properties(${target} PROPERTIES WICK_MODULES "${modules}")
    if(arg_DESTINATION)
        install(PROGRAMS ${modules} DESTINATION "${arg_DESTINATION}/operators")
    endif()
endmacro()
