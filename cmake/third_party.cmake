# Libraries of the distribution, under names of our own so that a folder states what it uses in one word.

find_package(Threads REQUIRED)

# Debian ships fmt and simdjson without archives. fmt's code can be compiled from its headers: once, where fmt.cpp knows
# the version, otherwise in every file that uses it.
find_package(fmt REQUIRED)
if(fmt_VERSION VERSION_LESS 11)
  add_library(sonde_ext_fmt STATIC ${CMAKE_CURRENT_LIST_DIR}/fmt.cpp)
  target_include_directories(sonde_ext_fmt SYSTEM PUBLIC
                             $<TARGET_PROPERTY:fmt::fmt-header-only,INTERFACE_INCLUDE_DIRECTORIES>)
else()
  add_library(sonde_ext_fmt INTERFACE)
  target_link_libraries(sonde_ext_fmt INTERFACE fmt::fmt-header-only)
endif()

# simdjson's cannot. Where the machine has an archive it is linked. Elsewhere it is the shared library, which the
# wheel carries along (python/native/CMakeLists.txt), because the machine that installs the wheel may lack it.
find_package(simdjson REQUIRED)
find_library(SONDE_SIMDJSON_ARCHIVE libsimdjson.a)
add_library(sonde_ext_simdjson INTERFACE)
if(SONDE_SIMDJSON_ARCHIVE)
  target_link_libraries(sonde_ext_simdjson INTERFACE ${SONDE_SIMDJSON_ARCHIVE})
else()
  target_link_libraries(sonde_ext_simdjson INTERFACE simdjson::simdjson)
endif()

# Highway, its headers alone: the library is only Highway's own choice of an instruction set.
find_path(SONDE_HIGHWAY_HEADERS hwy/highway.h REQUIRED)
add_library(sonde_ext_highway INTERFACE)
target_include_directories(sonde_ext_highway SYSTEM INTERFACE ${SONDE_HIGHWAY_HEADERS})

find_package(CLI11 REQUIRED)
add_library(sonde_ext_cli11 INTERFACE)
target_link_libraries(sonde_ext_cli11 INTERFACE CLI11::CLI11)

add_library(sonde_ext_threads INTERFACE)
target_link_libraries(sonde_ext_threads INTERFACE Threads::Threads)
