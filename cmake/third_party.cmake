# Libraries of the distribution, under names of our own so that a folder states what it uses in one word.

find_package(Threads REQUIRED)

# Debian ships fmt and simdjson without archives. fmt can be used from its headers alone.
find_package(fmt REQUIRED)
add_library(sonde_ext_fmt INTERFACE)
target_link_libraries(sonde_ext_fmt INTERFACE fmt::fmt-header-only)

# simdjson can not: take an archive where somebody has one, else the shared library, which the wheel then
# carries along (python/native/CMakeLists.txt), since the machine that installs the wheel may not have it.
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
