# Every header compiles alone: a file that includes it needs no other header before it. One object per header, never linked.

# sonde_check_headers(TARGET LIBRARIES <what the headers use> FOLDERS <folders from the root>)
# A name that ends in -inl.h is a part of another file, included several times or in its middle, and is left out.
function(sonde_check_headers target)
  cmake_parse_arguments(ARG "" "" "LIBRARIES;FOLDERS" ${ARGN})
  set(units "")
  foreach(folder IN LISTS ARG_FOLDERS)
    file(GLOB_RECURSE headers RELATIVE ${PROJECT_SOURCE_DIR} CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/${folder}/*.h)
    list(FILTER headers EXCLUDE REGEX "-inl\\.h$")
    foreach(header IN LISTS headers)
      set(unit ${CMAKE_BINARY_DIR}/headers/${header}.cpp)
      # Twice: the second time must add nothing.
      file(CONFIGURE OUTPUT ${unit} CONTENT "#include \"${header}\"\n#include \"${header}\"  // NOLINT\n")
      list(APPEND units ${unit})
    endforeach()
  endforeach()
  add_library(${target} OBJECT EXCLUDE_FROM_ALL ${units})
  target_include_directories(${target} PRIVATE ${PROJECT_SOURCE_DIR})
  target_compile_options(${target} PRIVATE -O0 -g0)
  target_link_libraries(${target} PRIVATE ${ARG_LIBRARIES})
endfunction()
