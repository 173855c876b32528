# WickFolders -- one object library per folder of src/, and the order in which folders may know each other
#
#   core <- {cuda, signature} <- {module, build} <- {load, torch, trial} <- {python, cli}
#
# A folder's include path holds include/, the folder itself and what it USES, nothing more: an include that goes
# upwards does not compile, and a USES that goes upwards does not configure.

set(WICK_FOLDERS core cuda signature module build load torch trial python cli)

# What each folder may use, all levels down.
set(WICK_MAY_USE_core)
set(WICK_MAY_USE_cuda core)
set(WICK_MAY_USE_signature core)
set(WICK_MAY_USE_module core cuda signature)
set(WICK_MAY_USE_build core cuda signature)
set(WICK_MAY_USE_load core cuda signature module build)
set(WICK_MAY_USE_torch core cuda signature module)
set(WICK_MAY_USE_trial core cuda signature module)
set(WICK_MAY_USE_python core cuda signature module build load torch trial)
set(WICK_MAY_USE_cli core cuda signature module build load)

# What everything compiled here agrees on, tests included.
function(wick_compile_as_ours target)
    set_target_properties(
        ${target}
        PROPERTIES C_STANDARD 11
                   C_STANDARD_REQUIRED ON
                   C_EXTENSIONS OFF
                   C_VISIBILITY_PRESET hidden
                   POSITION_INDEPENDENT_CODE ON)
    target_compile_definitions(${target} PRIVATE _POSIX_C_SOURCE=200809L WICK_VERSION="${PROJECT_VERSION}")
    target_compile_options(${target} PRIVATE ${WICK_WARNINGS} ${WICK_SANITIZE_FLAGS})
    target_include_directories(${target} PRIVATE ${PROJECT_SOURCE_DIR}/include)
endfunction()

# wick_folder(NAME SOURCES a.c b.c [USES core signature ...] [EXCEPTIONS])
# EXCEPTIONS: C++ exceptions of torch pass through this folder's frames.
function(wick_folder name)
    cmake_parse_arguments(PARSE_ARGV 1 arg "EXCEPTIONS" "" "SOURCES;USES")
    if(arg_UNPARSED_ARGUMENTS)
        message(FATAL_ERROR "wick_folder(${name}): unknown argument ${arg_UNPARSED_ARGUMENTS}")
    endif()
    if(NOT name IN_LIST WICK_FOLDERS)
        message(FATAL_ERROR "wick_folder(${name}): not in WICK_FOLDERS (cmake/WickFolders.cmake)")
    endif()
    foreach(used IN LISTS arg_USES)
        if(NOT used IN_LIST WICK_MAY_USE_${name})
            message(FATAL_ERROR "src/${name} may not use src/${used}: it is not below it")
        endif()
    endforeach()

    add_library(wick_${name} OBJECT ${arg_SOURCES})
    wick_compile_as_ours(wick_${name})
    target_include_directories(wick_${name} PRIVATE ${PROJECT_SOURCE_DIR}/src/${name})
    foreach(used IN LISTS arg_USES)
        target_include_directories(wick_${name} PRIVATE ${PROJECT_SOURCE_DIR}/src/${used})
    endforeach()
    if(arg_EXCEPTIONS)
        target_compile_options(wick_${name} PRIVATE -fexceptions)
    endif()
endfunction()

# The folders given and all below them, in order, as far as they exist.
function(wick_closure out)
    set(all ${ARGN})
    foreach(folder IN LISTS ARGN)
        list(APPEND all ${WICK_MAY_USE_${folder}})
    endforeach()
    set(result)
    foreach(folder IN LISTS WICK_FOLDERS)
        if(folder IN_LIST all AND TARGET wick_${folder})
            list(APPEND result ${folder})
        endif()
    endforeach()
    set(${out} ${result} PARENT_SCOPE)
endfunction()

# Puts the objects of the folders given, and of all below them, into a product.
function(wick_link_folders target)
    wick_closure(folders ${ARGN})
    foreach(folder IN LISTS folders)
        target_link_libraries(${target} PRIVATE wick_${folder})
    endforeach()
    target_link_libraries(${target} PRIVATE Threads::Threads ${CMAKE_DL_LIBS} m)
    target_link_options(${target} PRIVATE ${WICK_SANITIZE_FLAGS})
endfunction()
