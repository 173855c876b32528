# WickPython -- the headers of CPython, for the extension
#
# The extension keeps to the limited API of Python 3.10, so one binary serves every later version, and the headers of
# any of them will do. (CMake knows `Development.SABIModule` from 3.26 on; a plain module and one definition are the
# same thing.) A wheel needs them; a build of the C parts alone goes on without.

set(WICK_PY_LIMITED_API 0x030A0000)

if(SKBUILD)
    find_package(Python 3.10 REQUIRED COMPONENTS Interpreter Development.Module)
else()
    find_package(Python 3.10 QUIET COMPONENTS Interpreter Development.Module)
endif()

if(Python_Development.Module_FOUND)
    set(WICK_PYTHON_FOUND TRUE)
else()
    set(WICK_PYTHON_FOUND FALSE)
    message(STATUS "Python.h not found: src/python is left out")
endif()
