# How every translation unit is compiled. Included once, from the root, before any target exists.

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)  # clang-tidy reads it

# The engine's archives end up in a shared object that is loaded into a process that is not ours: they must be
# position independent, and no symbol of ours may meet one of theirs.
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_CXX_VISIBILITY_PRESET hidden)
set(CMAKE_VISIBILITY_INLINES_HIDDEN ON)

if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE RelWithDebInfo CACHE STRING "" FORCE)
endif()
# The same optimisation in the wheel and in development, so that what is measured is what ships. Debug keeps
# assertions and is what the sanitizers run on; -O1 keeps those bearable.
set(CMAKE_CXX_FLAGS_RELEASE "-O2 -DNDEBUG")
# -g1: functions and lines for perf, valgrind and stack traces. Variables too would make each build a third slower.
set(CMAKE_CXX_FLAGS_RELWITHDEBINFO "-O2 -g1 -DNDEBUG")
set(CMAKE_CXX_FLAGS_DEBUG "-O1 -g")

add_compile_definitions(SONDE_VERSION="${PROJECT_VERSION}")
add_compile_options(-Wall -Wextra -Wpedantic)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
  add_compile_options(-Wno-restrict)  # false alarms on std::string's operator+ (GCC bug 105651)
endif()
# KNOWN: a newer compiler may have new warnings, and must not fail for them where Sonde is only built to be used.
if(SONDE_WERROR STREQUAL "KNOWN")
  if((CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 14) OR
     (CMAKE_CXX_COMPILER_ID STREQUAL "Clang" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 15))
    add_compile_options(-Werror)
  endif()
elseif(SONDE_WERROR)
  add_compile_options(-Werror)
endif()

# A build tree keeps its first choice: switching ccache on later would compile everything again.
find_program(SONDE_CCACHE ccache)
if(NOT SONDE_CCACHE)
  set(SONDE_CCACHE "" CACHE FILEPATH "Empty: compile without ccache" FORCE)
elseif(NOT CMAKE_CXX_COMPILER_LAUNCHER)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${SONDE_CCACHE})
endif()

# The code of the hot path is spread over several folders and the extension. Linked as one program it is a fifth
# faster in the cold caches of a training step (bench/hooks.py nothing), because every cache line of code is a miss
# there: there are no stubs for calls into Python and no padding before jump targets. The archives also hold ordinary
# object code, for tests and the command.
set(SONDE_WHOLE_PROGRAM "")
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND NOT SONDE_SANITIZE AND NOT CMAKE_BUILD_TYPE STREQUAL "Debug")
  include(CheckIPOSupported)
  check_ipo_supported(RESULT has_lto OUTPUT why LANGUAGES CXX)
  if(has_lto)
    set(SONDE_WHOLE_PROGRAM -flto=auto -ffat-lto-objects -fno-plt -fno-align-jumps -fno-align-loops -fno-align-labels)
  else()
    message(WARNING "This compiler and linker cannot optimise across files (LTO). The build goes on without, and "
                    "framework hooks take about a fifth longer. They said:\n${why}")
  endif()
endif()

if(SONDE_FUZZ)
  if(NOT CMAKE_CXX_COMPILER_ID MATCHES "Clang")
    message(FATAL_ERROR "SONDE_FUZZ needs libFuzzer: configure with -DCMAKE_CXX_COMPILER=clang++")
  endif()
  if(NOT SONDE_SANITIZE)
    set(SONDE_SANITIZE "address,undefined")
  endif()
  add_compile_options(-fsanitize=fuzzer-no-link)
endif()

if(SONDE_SANITIZE)
  # Without recovery: a finding must fail the test, not scroll by.
  add_compile_options(-fsanitize=${SONDE_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer)
  add_link_options(-fsanitize=${SONDE_SANITIZE})
endif()
